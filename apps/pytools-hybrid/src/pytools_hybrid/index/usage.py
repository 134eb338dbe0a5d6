"""Recording searches in the background, so that answers do not wait for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from toolindex import (
    DamagedDatabaseError,
    OutcomeRecord,
    ToolIndexError,
    VectorError,
    finish_in_thread,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolindex import SearchRecord, ToolStore

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

_DELAY_SECONDS = 1.0
_MOST_DOUBLINGS = 6
_WAITING = 1_000


class Recording(StrEnum):
    """What happened to a reported outcome."""

    WRITTEN = "written"
    PENDING = "pending"
    """The index cannot be written at the moment; the outcome will be written when it can be."""
    OFF = "off"
    """The usage record is switched off."""
    READ_ONLY = "read-only"
    """The index is read-only."""


class Recorder:
    """Collects records of searches and query vectors, and writes them at intervals.

    If the database cannot be written, the oldest records may be lost, but no search fails.
    """

    def __init__(
        self,
        store: ToolStore,
        *,
        keeps_searches: bool,
        repair: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._repair = repair
        self._keeps_searches = keeps_searches
        self._searches: deque[SearchRecord] = deque(maxlen=_WAITING)
        self._outcomes: deque[OutcomeRecord] = deque(maxlen=_WAITING)
        self._vectors: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
        self._used: dict[str, set[str]] = defaultdict(set)
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[bool] | None = None
        self._failures = 0
        self._lock = asyncio.Lock()

    def search(self, record: SearchRecord) -> None:
        """Record a search."""
        if self._keeps_searches:
            self._searches.append(record)
            self._schedule()

    def outcome(
        self,
        tool_id: str,
        *,
        success: bool,
        latency_ms: float | None = None,
        search_id: str | None = None,
    ) -> Recording:
        """Record the outcome of using a tool; return whether it is written, or not kept at all."""
        record = OutcomeRecord(
            at=time.time(),
            tool_id=tool_id,
            success=success,
            latency_ms=latency_ms,
            search_id=search_id,
        )
        if not self._keeps_searches:
            return Recording.OFF
        if self._store.usage.read_only:
            return Recording.READ_ONLY
        self._outcomes.append(record)
        self._schedule()
        return Recording.PENDING

    def query_vector(self, model_id: str, text: str, values: Sequence[float]) -> None:
        """Keep a query's vector."""
        if len(self._vectors[model_id]) < _WAITING:
            self._vectors[model_id][text] = values
            self._schedule()

    def forget_query(self, model_id: str, text: str) -> None:
        """Do not keep a query's vector after all."""
        self._vectors[model_id].pop(text, None)

    def query_used(self, model_id: str, text: str) -> None:
        """Record that a kept vector was used."""
        if len(self._used[model_id]) < _WAITING:
            self._used[model_id].add(text)
            self._schedule()

    async def flush(self) -> bool:
        """Write what is pending, and return whether that worked; if not, it is kept."""
        async with self._lock:
            self._unschedule()
            if self._store.usage.read_only:
                return False
            try:
                try:
                    await finish_in_thread(self._write)
                except DamagedDatabaseError:
                    if self._repair is None:
                        raise
                    await self._repair()
                    await finish_in_thread(self._write)
            except ToolIndexError as error:
                self._failures += 1
                _log.info("searches are not recorded yet: %s", error)
                self._schedule()
                return False
            self._failures = 0
            return True

    async def flush_unless_failing(self) -> None:
        """Write pending records for a reader, unless the last write failed."""
        if not self._failures:
            await self.flush()

    async def aclose(self) -> None:
        """Write pending records, and stop."""
        await self.flush()
        self._unschedule()

    def _write(self) -> None:
        """Write all records, and drop those that were written, even if the rest fails."""
        for model_id in {*self._vectors, *self._used}:
            vectors, used = dict(self._vectors[model_id]), set(self._used[model_id])
            try:
                self._store.query_vectors.put(model_id, vectors, used=used)
            except VectorError as error:
                _log.info("query vectors were not stored: %s", error)
            self._used[model_id] -= used
            for text in vectors:
                self._vectors[model_id].pop(text, None)
        searches, outcomes = list(self._searches), list(self._outcomes)
        self._store.usage.record_searches(searches)
        _drop(self._searches, searches)
        self._store.usage.record_outcomes(outcomes)
        _drop(self._outcomes, outcomes)

    def _schedule(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            delay = _DELAY_SECONDS * 2 ** min(self._failures, _MOST_DOUBLINGS)
            self._timer = loop.call_later(delay, self._start)

    def _unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        # Kept, because the event loop only has weak references to tasks.
        self._writing = asyncio.create_task(self.flush())


def _drop(noted: deque[T], written: list[T]) -> None:
    for record in written:
        # Newer records may have displaced it in the meantime.
        if noted and noted[0] is record:
            noted.popleft()
