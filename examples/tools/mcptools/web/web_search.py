from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Freshness(Enum):
    day = "day"
    week = "week"
    month = "month"
    year = "year"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    query: str = Field(..., max_length=400)
    count: Optional[int] = Field(10, ge=1, le=20)
    freshness: Optional[Freshness] = None
    """
    Only pages published within this period
    """
    site: Optional[str] = None
    """
    Restrict to one domain
    """
    country: Optional[str] = None
    """
    Two-letter code, to prefer results from there
    """


class SearchHit(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    title: str = Field(..., title="Title")
    url: str = Field(..., title="Address")
    excerpt: str = Field(..., title="Excerpt", description="Passage around the matching words")
    published: Optional[str] = Field(None, title="Date of publication")


class ParseResult(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    hits: List[SearchHit] = Field(..., title="Hits, best first")


from . import CLIENT


def run(params: Params) -> str:
    """Search the internet for current information and get titles, addresses and short excerpts.

    Best for questions whose answer may have changed lately, or when no page is known yet. To
    read one of the hits, pass its address to fetch_page.
    """
    return CLIENT.run_sync(tool_name="web_search", tool_args=params.model_dump(exclude_none=True))


def run_parsed(params: Params) -> ParseResult:
    """Search the internet for current information; returns hits with title, address and excerpt.

    Best for questions whose answer may have changed lately, or when no page is known yet. Use
    fetch_page with a hit's url to read the page behind it.
    """
    return ParseResult.model_validate_json(run(params))
