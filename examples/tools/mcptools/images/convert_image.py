from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class ImageFormat(Enum):
    png = "png"
    jpeg = "jpeg"
    webp = "webp"
    avif = "avif"
    gif = "gif"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    output: str
    format_: Optional[ImageFormat] = Field(None, alias="format", description="Default: by suffix")
    quality: Optional[int] = Field(85, ge=1, le=100)
    stripMetadata: Optional[bool] = None
    """
    Remove EXIF data such as camera and location
    """


from . import CLIENT


def run(params: Params) -> str:
    """Change the file format or compression of a photo, for example HEIC to JPEG or PNG to WebP."""
    return CLIENT.run_sync(
        tool_name="convert_image", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )
