"""The records of a search and of an outcome, and their rows in the database."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from toolindex.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

QUERY_LENGTH = 2_000
"""The maximum length of a recorded query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The record of a search.

    Attributes:
        id: Its unique id; a search recorded twice counts once.
        at: When, in seconds since 1970, UTC.
        query: The query, of which the first `QUERY_LENGTH` characters are kept.
        mode: How it was ranked.
        parameters: Other parameters; values that JSON does not have are kept as their `str()`.
        results: The ids of the results, best first.
        latency_ms: How long it took.
        degraded: What was lost, as text; empty if all channels answered.

    Raises:
        UsageError: A time is negative or not finite.
    """

    id: str
    at: float
    query: str
    mode: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    results: tuple[str, ...]
    latency_ms: float
    degraded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number("at", self.at)
        check_number("latency_ms", self.latency_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """The outcome of using a tool.

    Attributes:
        at: When, in seconds since 1970, UTC.
        tool_id: The tool, indexed or not.
        success: Whether the tool worked.
        latency_ms: How long the call took, if known.
        search_id: The search that found the tool, if known.

    Raises:
        UsageError: A time is negative or not finite.
    """

    at: float
    tool_id: str
    success: bool
    latency_ms: float | None = None
    search_id: str | None = None

    def __post_init__(self) -> None:
        check_number("at", self.at)
        check_number("latency_ms", self.latency_ms or 0.0)


def search_row(search: SearchRecord) -> tuple[str | float, ...]:
    return (
        to_storable(search.id),
        float(search.at),
        to_storable(search.query[:QUERY_LENGTH]),
        to_storable(search.mode),
        json.dumps(dict(search.parameters), default=str),
        json.dumps([to_storable(id_) for id_ in search.results]),
        float(search.latency_ms),
        json.dumps(search.degraded),
    )


def outcome_row(outcome: OutcomeRecord) -> tuple[str | float | None, ...]:
    return (
        float(outcome.at),
        to_storable(outcome.tool_id),
        int(outcome.success),
        None if outcome.latency_ms is None else float(outcome.latency_ms),
        None if outcome.search_id is None else to_storable(outcome.search_id),
    )


@lru_cache(1_024)
def _loaded(text: str) -> Any:  # noqa: ANN401 - any JSON
    # Most searches have the same values, and parsing them takes most of the time of reading a large
    # record.
    return json.loads(text)


def to_search(
    id_: str,
    at: float,
    query: str,
    mode: str,
    parameters: str,
    results: str,
    latency_ms: float,
    degraded: str,
) -> SearchRecord:
    return SearchRecord(
        id=id_,
        at=at,
        query=query,
        mode=mode,
        parameters=dict(_loaded(parameters)),
        results=tuple(_loaded(results)),
        latency_ms=latency_ms,
        degraded=tuple(_loaded(degraded)),
    )


def to_outcome(
    at: float, tool_id: str, success: int, latency_ms: float | None, search_id: str | None
) -> OutcomeRecord:
    return OutcomeRecord(
        at=at,
        tool_id=tool_id,
        success=bool(success),
        latency_ms=latency_ms,
        search_id=search_id,
    )


def to_storable(text: str) -> str:
    r"""Return a text that SQLite can store: invalid Unicode is written as `\udcNN`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_number(argument: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise UsageError(argument, value)
