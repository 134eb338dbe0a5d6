"""What is written down of searches, beside them and not before their answers."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from toolindex import ToolIndexError, VectorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolindex import SearchRecord, ToolStore

__all__ = ["Recorder"]

_log = logging.getLogger("pytools_hybrid")

_DELAY_SECONDS = 1.0
_WAITING = 1_000


class Recorder:
    """Collects records of searches and vectors of queries, and writes them now and then.

    A database that cannot be written costs at most the oldest of these, and never a search.

    Args:
        store: Where they go.
        keeps_searches: Whether searches are written down at all.
    """

    def __init__(self, store: ToolStore, *, keeps_searches: bool) -> None:
        self._store = store
        self._keeps_searches = keeps_searches
        self._searches: deque[SearchRecord] = deque(maxlen=_WAITING)
        self._vectors: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
        self._used: dict[str, set[str]] = defaultdict(set)
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def search(self, record: SearchRecord) -> None:
        """Note a search."""
        if self._keeps_searches:
            self._searches.append(record)
            self._schedule()

    def query_vector(self, model_id: str, text: str, values: Sequence[float]) -> None:
        """Note a query's vector, to be kept."""
        if len(self._vectors[model_id]) < _WAITING:
            self._vectors[model_id][text] = values
            self._schedule()

    def query_used(self, model_id: str, text: str) -> None:
        """Note that a kept vector was used."""
        if len(self._used[model_id]) < _WAITING:
            self._used[model_id].add(text)
            self._schedule()

    async def flush(self) -> None:
        """Write what has been noted; what cannot be written now waits for the next time."""
        async with self._lock:
            self._unschedule()
            if self._store.read_only:
                return
            searches = list(self._searches)
            vectors, self._vectors = self._vectors, defaultdict(dict)
            used, self._used = self._used, defaultdict(set)
            try:
                await asyncio.to_thread(self._write, searches, vectors, used)
            except ToolIndexError as error:
                _log.info("searches were not written down yet: %s", error)
                for model_id, values in vectors.items():
                    self._vectors[model_id] = values | self._vectors[model_id]
                self._schedule()
                return
            for record in searches:
                # Others may have been noted meanwhile, and have pushed these out.
                if self._searches and self._searches[0] is record:
                    self._searches.popleft()

    async def aclose(self) -> None:
        """Write what has been noted, and stop."""
        await self.flush()
        self._unschedule()

    def _write(
        self,
        searches: list[SearchRecord],
        vectors: dict[str, dict[str, Sequence[float]]],
        used: dict[str, set[str]],
    ) -> None:
        for model_id in vectors.keys() | used.keys():
            try:
                self._store.query_vectors.put(
                    model_id, vectors.get(model_id, {}), used=used.get(model_id, ())
                )
            except VectorError as error:
                _log.info("vectors of queries were not kept: %s", error)
        self._store.usage.record_searches(searches)

    def _schedule(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_DELAY_SECONDS, self._start)

    def _unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        # Kept, for the loop itself holds tasks only weakly.
        self._writing = asyncio.create_task(self.flush())
