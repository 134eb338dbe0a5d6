from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    query: str
    tags: Optional[List[str]] = None
    semantic: Optional[bool] = None
    """
    Compare by meaning as well as by words
    """
    limit: Optional[int] = 10


class NoteHit(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    noteId: str
    title: str
    excerpt: str
    score: float


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    hits: List[NoteHit]


from . import CLIENT


def run(params: Params) -> Result:
    """Recall what was noted about a subject, by words, tags or meaning."""
    result = CLIENT.run_sync(
        tool_name="search_notes", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
