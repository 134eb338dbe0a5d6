from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Format(Enum):
    markdown = "markdown"
    text = "text"
    html = "html"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    url: str
    format: Optional[Format] = None
    """
    Form of the content (default: markdown)
    """
    mainContentOnly: Optional[bool] = True
    """
    Leave out menus, banners and footers
    """
    startIndex: Optional[int] = 0
    """
    Character to continue from when the last answer was cut
    """
    maxLength: Optional[int] = Field(20000, gt=0, le=200000)


from . import CLIENT


async def run(params: Params) -> str:
    """Download one web page and return its content as Markdown, plain text or HTML.

    JavaScript is not run: pages that build themselves in the browser come back almost empty. In
    that case take_screenshot shows what a visitor sees. Obeys robots.txt.
    """
    return await CLIENT.run(tool_name="fetch_page", tool_args=params.model_dump(exclude_none=True))
