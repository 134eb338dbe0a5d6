from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    title: str
    content: str
    """
    Markdown; [[Title]] links to another note
    """
    folder: Optional[str] = None
    tags: Optional[List[str]] = None


from . import CLIENT


def run(params: Params) -> str:
    """Write down something worth remembering as a new note in the knowledge base."""
    return CLIENT.run_sync(tool_name="create_note", tool_args=params.model_dump(exclude_none=True))
