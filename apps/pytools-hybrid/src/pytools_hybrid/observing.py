"""What is counted, timed and traced: searches, calls and other work, from every interface.

Each event is counted once, where it happens. Numbers are for the whole process, as monitoring
systems expect.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Self

from pytools_hybrid.tracing import failed, is_tracing, span

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

    from opentelemetry.trace import Span

    from pytools_hybrid.tracing import Value

__all__ = [
    "CALLS",
    "COUNTS",
    "DURATIONS",
    "HTTP_REQUESTS",
    "HTTP_SECONDS",
    "LOST_CHANNELS",
    "MODEL_REQUESTS",
    "SEARCHES",
    "SYNCS",
    "Observed",
    "transport",
    "via",
]

_QUICK_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The buckets for work that people wait for."""

_SLOW_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_lock = Lock()
_transport: ContextVar[str] = ContextVar("transport", default="python")


def transport() -> str:
    """Return the interface through which the current work was requested: mcp, http or python."""
    return _transport.get()


@contextmanager
def via(name: str) -> Generator[None]:
    """Set the interface through which the work inside the block was requested."""
    token = _transport.set(name)
    try:
        yield
    finally:
        _transport.reset(token)


class Count:
    """A number of events, by labels.

    Args:
        name: The name of the metric, without `_total`.
    """

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name = name
        self.about = about
        self.labels = labels
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str) -> None:
        """Count an event."""
        with _lock:
            self._values[labels] = self._values.get(labels, 0) + 1

    def values(self) -> Mapping[tuple[str, ...], int]:
        """Return the numbers so far, by the values of the labels."""
        with _lock:
            return dict(self._values)


class Durations:
    """How long events took, in buckets, by labels.

    Args:
        bounds: The upper bounds of the buckets, in seconds.
    """

    def __init__(self, name: str, about: str, *labels: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self.about = about
        self.labels = labels
        self._bounds = bounds
        self._rows: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, seconds: float, *labels: str) -> None:
        """Record how long an event took."""
        with _lock:
            row = self._rows.get(labels)
            if row is None:
                row = self._rows[labels] = [0] * (len(self._bounds) + 1)
            row[bisect_left(self._bounds, seconds)] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def values(self) -> Mapping[tuple[str, ...], tuple[list[tuple[str, float]], float]]:
        """Return, by the values of the labels, cumulative buckets by bound, and the sum."""
        bounds = [*map(str, self._bounds), "+Inf"]
        with _lock:
            return {
                labels: (
                    list(zip(bounds, map(float, accumulate(row)), strict=True)),
                    self._sums[labels],
                )
                for labels, row in self._rows.items()
            }


class Work:
    """A kind of work: how often it had which outcome, and how long it took.

    Args:
        name: The beginning of the names of its two metrics.
        plural: As in "Searches".
        labels: The names of the labels besides the outcome.
        outcomes: The possible outcomes.
        operation: Its name in traces, from the GenAI conventions if they define one.
        bounds: The upper bounds of the buckets, in seconds.
    """

    def __init__(
        self,
        name: str,
        plural: str,
        *labels: str,
        outcomes: str,
        operation: str,
        bounds: tuple[float, ...] = _SLOW_SECONDS,
    ) -> None:
        self.operation = operation
        many = plural.lower().replace(" ", "_")
        self.count: Count = Count(f"pytools_{many}", f"{plural}: {outcomes}.", *labels, "outcome")
        self.durations: Durations = Durations(
            f"pytools_{name}_seconds", f"How long {plural.lower()} took.", *labels, bounds=bounds
        )


class Observed:
    """Counts and times the work of a block.

    Attributes:
        labels: The same; some may become known only in the block.
        outcome: How it ended. Without one, a block that ends is not counted, and one that raises is
            counted as cancelled or failed.
    """

    __slots__ = ("_span", "_started", "_tracing", "_work", "labels", "outcome")

    def __init__(self, work: Work, *labels: str) -> None:
        self._work = work
        self.labels: tuple[str, ...] = labels
        self.outcome: str = ""

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        self._tracing: AbstractContextManager[Span | None] | None = None
        self._span: Span | None = None
        if is_tracing():
            self._tracing = _traced(self._work, self.labels)
            self._span = self._tracing.__enter__()
        return self

    def note(self, target: str, attributes: Mapping[str, Value]) -> None:
        """Add to the trace, if there is one, what the work is done to, and what else is known."""
        if self._span is not None:
            self._span.update_name(f"{self._work.operation} {target}")
            self._span.set_attributes(attributes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._started
        if error is not None and not self.outcome:
            self.outcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        if self.outcome:
            self._work.count.add(*self.labels, self.outcome)
            self._work.durations.add(seconds, *self.labels)
        if self._tracing is not None and self._span is not None:
            told = zip(self._work.count.labels, (*self.labels, self.outcome), strict=True)
            self._span.set_attributes({f"pytools.{name}": it for name, it in told if it})
            if error is None and self.outcome in {"error", "failed"}:
                failed(self._span, "tool_error" if self.outcome == "error" else "failed")
            self._tracing.__exit__(kind, error, traceback)


def _traced(work: Work, labels: tuple[str, ...]) -> AbstractContextManager[Span | None]:
    if work is SYNCS:
        return span(work.operation)
    if work is not MODEL_REQUESTS:
        return span(work.operation, {"gen_ai.operation.name": work.operation})
    use, model = labels
    operation = "rerank" if use == "rerank" else work.operation
    known = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": model.partition(":")[0],
        "gen_ai.request.model": model,
    }
    return span(f"{operation} {model}", known, kind="client")


SEARCHES = Work(
    "search",
    "Searches",
    "transport",
    "mode",
    outcomes="found, empty, early (the index was still being filled), failed or cancelled",
    operation="retrieval",
    bounds=_QUICK_SECONDS,
)
LOST_CHANNELS = Count(
    "pytools_search_channels_lost", "Searches in which a channel failed.", "channel"
)
CALLS = Work(
    "call",
    "Calls",
    "transport",
    "category",
    outcomes="ok, error (reported by the tool), refused, failed (no answer) or cancelled",
    operation="execute_tool",
)
MODEL_REQUESTS = Work(
    "model_request",
    "Model requests",
    "use",
    "model",
    outcomes="to embed a query or tools, or to rerank: answered, failed or cancelled",
    operation="embeddings",
)
SYNCS = Work(
    "sync",
    "Syncs",
    outcomes="of the index with the files: changed, unchanged or failed",
    operation="sync",
)
HTTP_REQUESTS = Count(
    "pytools_http_requests", "HTTP requests, including those to /mcp.", "method", "route", "status"
)
HTTP_SECONDS = Durations(
    "pytools_http_request_seconds",
    "How long HTTP requests took to answer.",
    "route",
    bounds=_QUICK_SECONDS,
)
_WORK = (SEARCHES, CALLS, MODEL_REQUESTS, SYNCS)
COUNTS = (*(work.count for work in _WORK), LOST_CHANNELS, HTTP_REQUESTS)
"""All counters."""

DURATIONS = (*(work.durations for work in _WORK), HTTP_SECONDS)
"""All timers."""
