from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Viewport(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    width: int = 1280
    height: int = 800


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    url: str
    viewport: Optional[Viewport] = None
    fullPage: Optional[bool] = None
    """
    Capture down to the end of the page
    """
    selector: Optional[str] = None
    """
    CSS selector of the only element to capture
    """
    waitMilliseconds: Optional[int] = 0


from . import CLIENT


def run(params: Params) -> str:
    """Open an address in a headless browser and capture what it looks like as a PNG."""
    return CLIENT.run_sync(
        tool_name="take_screenshot", tool_args=params.model_dump(exclude_none=True)
    )
