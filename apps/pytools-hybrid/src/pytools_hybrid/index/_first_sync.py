"""How long callers wait for an index that is being opened and filled for the first time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from pytools_hybrid.errors import IndexNotReadyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytools_hybrid.index._open_index import OpenIndex
    from pytools_hybrid.index._scan import Filling

# Clients wait a minute at most.
_OPENING_SECONDS = 45.0
_FIRST_SYNC_SECONDS = 10.0
_FIRST_TOOLS_SECONDS = 45.0
_FIRST_EMBEDDING_SECONDS = 2.0
_PROGRESS_SECONDS = 1.0


class FirstSync:
    """Lets callers wait, for a limited time, until an index can answer them."""

    def __init__(self, index: OpenIndex) -> None:
        self._index = index
        self._opened = asyncio.Event()
        self._synced = asyncio.Event()
        self._embedded = asyncio.Event()
        self._made = self._started = self._looked = asyncio.get_running_loop().time()

    async def ready(self, progress: Callable[[float, str], Awaitable[None]] | None = None) -> None:
        """Wait until all files are scanned and new tools embedded, for a limited time.

        Without it, a search that arrives with the first message to a server would be answered from
        an empty index. The limits count from the start and from the end of the first scan, so that
        a slow tree, or a slow or failing model, does not delay callers. They only wait longer while
        there are no tools at all.

        Args:
            progress: Called now and then during the wait, with the seconds so far and the current
                step.
        """
        if not await self.looked(progress):
            await self._some_tools(progress)
        until = self._looked + _FIRST_EMBEDDING_SECONDS
        await self._wait(self._embedded, until, progress, "embedding new tools")

    async def opened(
        self,
        progress: Callable[[float, str], Awaitable[None]] | None = None,
        *,
        within: float | None = None,
    ) -> bool:
        """Wait until the index is open, `within` seconds from the start; return whether it is."""
        until = self._made + (_OPENING_SECONDS if within is None else within)
        return await self._wait(self._opened, until, progress, "opening the index")

    async def looked(
        self,
        progress: Callable[[float, str], Awaitable[None]] | None = None,
        *,
        within: float | None = None,
    ) -> bool:
        """Wait until all files have been scanned, for a limited time; return whether they are.

        The limit for the scan, `within`, counts from the opening.

        Raises:
            IndexNotReadyError: Opening the index takes too long.
        """
        if not await self.opened(progress):
            raise IndexNotReadyError
        until = self._started + (_FIRST_SYNC_SECONDS if within is None else within)
        return await self._wait(self._synced, until, progress, "scanning the files")

    async def _some_tools(self, progress: Callable[[float, str], Awaitable[None]] | None) -> None:
        """Wait until there is any tool, added by any process, for a limited time."""
        until = self._started + _FIRST_TOOLS_SECONDS
        loop = asyncio.get_running_loop()
        while not (self._synced.is_set() or (await self._index.state()).coverage.tools):
            if (now := loop.time()) >= until:
                return
            soon = min(until, now + _PROGRESS_SECONDS)
            await self._wait(self._synced, soon, progress, "scanning the files")

    async def _wait(
        self,
        event: asyncio.Event,
        until: float,
        progress: Callable[[float, str], Awaitable[None]] | None,
        work: str,
    ) -> bool:
        loop = asyncio.get_running_loop()
        while not event.is_set() and (now := loop.time()) < until:
            if progress is not None:
                far = f": {self._filling}" if self._filling else ""
                await progress(round(now - self._made, 3), f"{work}{far}")
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, now + _PROGRESS_SECONDS)):
                    await event.wait()
        return event.is_set()

    @property
    def _filling(self) -> Filling | None:
        return self._index.sync.filling if self._opened.is_set() else None

    def _note_opened(self) -> None:
        self._started = self._looked = asyncio.get_running_loop().time()
        self._opened.set()

    def _note_looked(self) -> None:
        if not self._synced.is_set():
            self._looked = asyncio.get_running_loop().time()
            self._synced.set()
