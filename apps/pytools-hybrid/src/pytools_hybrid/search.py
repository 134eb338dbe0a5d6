"""A query against the index: channels, ranking, details, and what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from toolindex import CONTENT_TABLE, FTS_COLUMNS, FTS_TABLE, VEC_TABLE, ToolFilter
from toolrank import (
    BM25Retriever,
    Channel,
    Content,
    Filter,
    HybridRanker,
    Query,
    VectorRetriever,
    linear_fusion,
    reciprocal_rank_fusion,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolindex import IndexReader, ToolEntry
    from toolrank import Fusion

__all__ = ["MAX_LIMIT", "FoundTool", "Scope", "SearchMode", "SearchResponse", "rank_tools"]

MAX_LIMIT = 50

_COLUMN_WEIGHTS = {
    "name_words": 3.0,
    "description": 1.0,
    "parameter_words": 0.5,
    "category_words": 0.75,
    "tag_words": 1.0,
}
_WEIGHTS = tuple(_COLUMN_WEIGHTS[column] for column in FTS_COLUMNS)
_FUSIONS: dict[str, Fusion] = {"linear": linear_fusion, "rrf": reciprocal_rank_fusion}
_CONTENT = Content(table=CONTENT_TABLE, column="id")


class SearchMode(StrEnum):
    """Which channels a search uses."""

    HYBRID = "hybrid"
    BM25 = "bm25"
    VECTOR = "vector"


class Scope(StrEnum):
    """Which source's tools a search may return."""

    ALL = "all"
    GENTOOLS = "gentools"
    MCPTOOLS = "mcptools"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTool:
    """One result.

    Attributes:
        entry: The tool.
        score: In [0, 1]; orders the results of one search.
    """

    entry: ToolEntry
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResponse:
    """The answer to one search.

    Attributes:
        tools: Best first.
        notes: What the reader should know of the answer: channels that were lost and why,
            vectors still missing, and what to try when nothing was found.
        generation: The state of the index that answered.
    """

    tools: tuple[FoundTool, ...]
    notes: tuple[str, ...] = ()
    generation: int = 0


def rank_tools(
    reader: IndexReader,
    query: Query,
    *,
    weights: Mapping[SearchMode, float],
    fusion: Literal["linear", "rrf"],
    scope: Scope,
    limit: int,
) -> tuple[FoundTool, ...]:
    """Rank the tools of one state of the index.

    Args:
        reader: That state.
        query: The text, and its vector in the space of the index's model if there is one.
        weights: The weight of the BM25 and vector channels; absent or 0 is off.
        fusion: How the channels' rankings become one.
        scope: Whose tools.
        limit: How many at most.
    """
    where = _filter(ToolFilter(source=None if scope is Scope.ALL else scope.value))
    channels: list[Channel] = []
    if weight := weights.get(SearchMode.BM25, 0.0):
        bm25 = BM25Retriever(
            reader.connection, table=FTS_TABLE, weights=_WEIGHTS, content=_CONTENT, where=where
        )
        channels.append(Channel(bm25, weight))
    if query.vector is not None and (weight := weights.get(SearchMode.VECTOR, 0.0)):
        vector = VectorRetriever(reader.connection, table=VEC_TABLE, content=_CONTENT, where=where)
        channels.append(Channel(vector, weight))
    hits = HybridRanker(channels, fuse=_FUSIONS[fusion]).rank(query, limit=limit)
    entries = reader.entries([hit.id for hit in hits])
    return tuple(FoundTool(entry=entries[hit.id], score=hit.score) for hit in hits)


def _filter(tools: ToolFilter) -> Filter | None:
    selection = tools.rowids()
    return None if selection is None else Filter(sql=selection[0], parameters=selection[1])
