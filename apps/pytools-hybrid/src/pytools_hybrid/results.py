"""Answers as agents get them: the tools of a response, and what else there is to say of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from pytools_hybrid.plain_text import readable

if TYPE_CHECKING:
    from pathlib import Path

    from pytools_hybrid.search import FoundTool, SearchResponse

__all__ = ["ToolResult", "answer_meta", "shown_path", "tool_results"]


class ToolResult(BaseModel):
    """A tool that was found."""

    name: str = Field(description="As in 'create_issue'")
    category: str = Field(description="As in 'github'")
    source: str = Field(description="'mcptools' or 'gentools'")
    description: str = Field(description="Docstring, or its summary")
    score: float = Field(ge=0, le=1, description="Orders one answer")
    path: str = Field(description="Source file")
    id: str = Field(description="source:category:name")
    signature: str = Field(description="Of the function to call")


def tool_results(
    response: SearchResponse, root: Path, *, detail: Literal["full", "summary"] = "full"
) -> list[ToolResult]:
    """Give the tools of a response, best first.

    Args:
        response: The answer to a search.
        root: The tree as it was named, relative where it is: paths begin with it.
        detail: Whole docstrings, or their summaries.
    """
    return [_result(found, root, detail) for found in response.tools]


def answer_meta(response: SearchResponse) -> dict[str, Any]:
    """Give what a response says besides its tools, as values of JSON."""
    meta: dict[str, Any] = {
        "search_id": response.search_id,
        "generation": response.generation,
        "coverage": {"tools": response.coverage.tools, "vectors": response.coverage.vectors},
        "channels": list(response.channels),
        "lost": list(response.lost),
        "notes": list(response.notes),
        "confidence": {str(it.entry.id): round(it.confidence, 6) for it in response.tools},
        "duplicates": {
            str(it.entry.id): list(it.duplicates) for it in response.tools if it.duplicates
        },
    }
    if response.rerank is not None:
        meta["rerank"] = response.rerank.as_dict()
    return meta


def shown_path(root: Path, path: str) -> str:
    r"""Give the path of a tool's source as text: posix, below the root as it was named.

    Bytes of a folder's name that are not UTF-8 appear as `\xNN`.
    """
    return os.fsencode((root / path).as_posix()).decode("utf-8", "backslashreplace")


def _result(found: FoundTool, root: Path, detail: Literal["full", "summary"]) -> ToolResult:
    entry = found.entry
    return ToolResult(
        name=entry.id.name,
        category=entry.id.category,
        source=entry.id.source,
        description=readable(entry.description if detail == "full" else entry.summary),
        score=round(found.score, 6),
        path=shown_path(root, entry.path),
        id=str(entry.id),
        signature=readable(entry.signature),
    )
