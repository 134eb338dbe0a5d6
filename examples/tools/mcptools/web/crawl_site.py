from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    url: str
    """
    Where to start
    """
    maxDepth: Optional[int] = Field(2, ge=1, le=5)
    maxPages: Optional[int] = Field(50, ge=1, le=500)
    includePaths: Optional[List[str]] = None
    """
    Follow only links whose path matches one of these globs
    """
    excludePaths: Optional[List[str]] = None


class Page(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    url: str
    title: Optional[str] = None
    markdown: str
    depth: int


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    pages: List[Page]
    skipped: int


from . import CLIENT


async def run(params: Params) -> Result:
    """Follow the links of a website and collect many of its pages in one go.

    **Best for:** documentation sites and blogs that will be read as a whole.

    **Not for:** a single known address (use fetch_page), or finding out which site has the
    answer (use web_search).

    The answer is long: up to maxPages pages of Markdown. Keep the depth low and name the paths.

    ```json
    {"url": "https://docs.example.com", "maxDepth": 2, "includePaths": ["/guide/**"]}
    ```
    """
    result = await CLIENT.run(
        tool_name="crawl_site", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
