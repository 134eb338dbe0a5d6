from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    """
    DOCX, PPTX, XLSX, PDF or HTML file
    """
    targetLanguage: str
    sourceLanguage: Optional[str] = None
    output: Optional[str] = None


from . import CLIENT


def run(params: Params) -> str:
    """Translate an office document or PDF as a whole and keep its layout, fonts and pictures."""
    return CLIENT.run_sync(
        tool_name="translate_document", tool_args=params.model_dump(exclude_none=True)
    )
