"""Answers for agents: the tools of a response and its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from pytools_hybrid.search import MatchType  # noqa: TC001 - the type of a field
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytools_hybrid.search import FoundTool, SearchResponse
    from pytools_hybrid.settings import Roots

__all__ = ["META_PREFIX", "ToolResult", "answer_meta", "shared_meta", "tool_results"]

META_PREFIX = "pytools/"
"""The prefix of this server's keys in the `_meta` of its answers."""

# Each digit costs a token in every answer.
_DIGITS = 3


class ToolResult(BaseModel):
    """A tool that was found."""

    name: str = Field(description="As in 'create_issue'")
    category: str = Field(description="As in 'github'")
    source: str = Field(description="'mcptools' or 'gentools'")
    description: str = Field(description="Docstring, or its summary")
    score: float = Field(ge=0, le=1, description="The first's confidence; others as they fit")
    confidence: float = Field(ge=0, le=1, description="How likely the tool does this")
    match_type: MatchType = Field(description="How it was found")
    path: str = Field(description="Source file")
    id: str = Field(description="source:category:name")
    signature: str = Field(description="Of the function to call")
    also: list[str] | None = Field(None, description="Ids of equal tools of other servers")


def tool_results(
    response: SearchResponse, roots: Roots, *, detail: Literal["full", "summary"] = "full"
) -> list[ToolResult]:
    """Return the tools of a response, best first.

    Paths begin with the tree, written as in the settings. What does not apply to a tool is not set.
    """
    return [_result(found, roots, detail) for found in response.tools]


def answer_meta(response: SearchResponse, cut: Sequence[str] = ()) -> dict[str, Any]:
    """Return the metadata of a response for MCP, as JSON values.

    Args:
        response: The response.
        cut: The ids of the tools whose description is cut in the answer.
    """
    duplicates = {str(it.entry.id): list(it.duplicates) for it in response.tools if it.duplicates}
    meta = {**shared_meta(response), "duplicates": duplicates, "cut": list(cut)}
    if response.rerank is not None:
        meta["rerank"] = response.rerank.as_dict()
    return meta


def shared_meta(response: SearchResponse) -> dict[str, Any]:
    """Return the metadata of a response that all interfaces share, as JSON values."""
    return {
        "search_id": response.search_id,
        "generation": response.generation,
        "coverage": {"tools": response.coverage.tools, "vectors": response.coverage.vectors},
        "channels": list(response.channels),
        "model": response.model,
        "lost": list(response.lost),
        "notes": list(response.notes),
    }


def _result(found: FoundTool, roots: Roots, detail: Literal["full", "summary"]) -> ToolResult:
    entry = found.entry
    also = {"also": list(found.also)} if found.also else {}
    return ToolResult(
        name=entry.id.name,
        category=entry.id.category,
        source=entry.id.source,
        description=readable(entry.description if detail == "full" else entry.summary),
        score=round(found.score, _DIGITS),
        confidence=round(found.confidence, _DIGITS),
        match_type=found.match_type,
        path=roots.shown(entry.path),
        id=str(entry.id),
        signature=readable(entry.signature),
        **also,
    )
