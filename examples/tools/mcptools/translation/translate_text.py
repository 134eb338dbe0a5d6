from __future__ import annotations

from typing import List, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict


class GlossaryEntry(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    source: str
    target: str


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    text: Union[str, List[str]]
    """
    One passage, or up to 50 that share a context
    """
    targetLanguage: str
    """
    BCP 47 tag, such as "pt-BR"
    """
    sourceLanguage: Optional[str] = None
    """
    Detected when missing
    """
    formality: Optional[Literal["formal", "informal"]] = None
    glossary: Optional[List[GlossaryEntry]] = None
    """
    Terms that must be rendered in a given way
    """


from . import CLIENT


def run(params: Params) -> str:
    """Translate a passage from one human language to another, keeping its tone and line breaks.

    Up to 30,000 characters a call. Markdown and HTML tags are left alone.
    """
    return CLIENT.run_sync(
        tool_name="translate_text", tool_args=params.model_dump(exclude_none=True)
    )
