"""What the usage record keeps of a search."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, cast

from toolindex import SearchRecord, ToolFilter

if TYPE_CHECKING:
    from pytools_hybrid.search._types import SearchRequest, SearchResponse

# Whoever filters by a thousand tags is not remembered by them.
_FILTER_VALUES = 20
_VALUE_CHARACTERS = 200
_DEFAULTS = [(field.name, getattr(ToolFilter(), field.name)) for field in fields(ToolFilter)]


def search_record(
    request: SearchRequest, response: SearchResponse, *, at: float, milliseconds: float
) -> SearchRecord:
    """Make the record of a search.

    Args:
        request: What was asked.
        response: What was answered.
        at: When, in seconds since 1970.
        milliseconds: How long it took.
    """
    where = {
        name: [
            each[:_VALUE_CHARACTERS]
            for each in sorted(cast("frozenset[str]", value))[:_FILTER_VALUES]
        ]
        if isinstance(value, frozenset)
        else value
        for name, default in _DEFAULTS
        if (value := getattr(request.where, name)) != default
    }
    return SearchRecord(
        id=response.search_id,
        at=at,
        query=request.text,
        mode=request.mode.value,
        parameters={"limit": request.limit, **where},
        results=tuple(str(found.entry.id) for found in response.tools),
        latency_ms=milliseconds,
        degraded=response.lost,
    )
