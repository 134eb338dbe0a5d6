"""The live part of the health page, and its stream of server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolindex import ToolIndexError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from pytools_hybrid.search import ToolSearch

_MOST_STREAMS = 32

_SECONDS = 1.0
# Proxies close streams that are silent for too long; browsers reopen a stream that has ended.
_SILENCE = 15.0
_LONGEST = 600.0


class LiveState:
    """The state of an index as text, read once a second for all open pages.

    Args:
        search: The search.

    Attributes:
        streams: The number of open streams.
    """

    def __init__(self, search: ToolSearch) -> None:
        self.streams = 0
        self._search = search
        self._lock = asyncio.Lock()
        self._values: dict[str, Any] = {}
        self._looked = float("-inf")

    async def values(self) -> Mapping[str, Any]:
        """Return the texts of the page by name, and the progress of current work, from 0 to 1.

        `progress` is None if nothing is in progress.
        """
        async with self._lock:
            if time.monotonic() >= self._looked + _SECONDS / 2:
                self._values = await self._look()
                self._looked = time.monotonic()
            return self._values

    async def events(self, may_watch: Callable[[], bool]) -> AsyncGenerator[str]:
        """Yield an event for each change, until the browser has to reconnect.

        Args:
            may_watch: Returns whether the client is still allowed to watch.
        """
        if self.streams >= _MOST_STREAMS:
            # The browser tries again after 15 seconds.
            yield "retry: 15000\n\n"
            return
        self.streams += 1
        try:
            started = spoken = time.monotonic()
            before: Mapping[str, Any] | None = None
            while may_watch() and (now := time.monotonic()) < started + _LONGEST:
                values = await self.values()
                if values != before:
                    yield f"event: state\ndata: {json.dumps(values)}\n\n"
                    before, spoken = values, now
                elif now >= spoken + _SILENCE:
                    yield ": nothing new\n\n"
                    spoken = now
                await asyncio.sleep(_SECONDS)
        finally:
            self.streams -= 1

    async def _look(self) -> dict[str, Any]:
        index = self._search.index
        sync = index.sync
        try:
            state, away = await index.state(), await index.away()
        except ToolIndexError as error:
            return _texts(f"cannot be read: {error}", None, "unknown", "unknown")
        coverage = state.coverage
        embeds = index.embedder is not None
        pending = coverage.tools - coverage.vectors if embeds and coverage.tools else 0
        progress: float | None = None
        if sync.filling is not None:
            status = f"indexing: {sync.filling}"
            progress = min(sync.filling.read / max(sync.filling.total, 1), 1.0)
        elif sync.is_first_look:
            status = "scanning the files"
            progress = 0.0
        elif away:
            status = away
        elif sync.failure is not None:
            status = f"may be out of date: {sync.failure}"
        elif pending > 0 and not index.vectors.failure and index.settings.follows_files:
            status = "up to date with the files; embedding"
            progress = coverage.vectors / coverage.tools
        else:
            status = "up to date" if index.settings.follows_files else "used without updates"
        if not embeds:
            vectors = "no model: searches use words alone"
        else:
            vectors = f"{coverage.vectors:,} of {coverage.tools:,} tools have vectors"
            if index.vectors.failure:
                vectors += f"; {index.vectors.failure}"
        found = f"{coverage.tools:,}"
        texts = _texts(status, progress, found, vectors, sync.synced_at)
        return {**texts, "generation": str(state.generation)}


def _texts(
    status: str,
    progress: float | None,
    tools: str,
    vectors: str,
    synced_at: float | None = None,
) -> dict[str, Any]:
    return {
        "status": status,
        "progress": None if progress is None else round(progress, 3),
        "tools": tools,
        "vectors": vectors,
        "synced": moment(synced_at),
    }


def moment(at: float | None) -> str:
    """Format a time for people."""
    return "not yet" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
