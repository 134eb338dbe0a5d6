"""Keeping an index in step with the files while a server runs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolindex import ToolIndexError

from pytools_hybrid.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import PurePosixPath

    from pytools_hybrid.service import ToolSearch

__all__ = ["Upkeep"]

_log = logging.getLogger("pytools_hybrid")

_FIRST_SYNC_SECONDS = 10.0
_FIRST_EMBEDDING_SECONDS = 1.0
_RETRY_SECONDS = (1.0, 5.0, 30.0, 120.0)


class Upkeep:
    """Brings the index of an open `ToolSearch` up to date, and goes on as files change.

    What fails is tried again, with growing pauses; searches go on meanwhile.
    """

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._changed = asyncio.Event()
        self._synced = asyncio.Event()
        self._embedded = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._follow_files())
                    tasks.create_task(self._follow_entries())
            except* Exception:  # noqa: BLE001
                # Whatever it was, the files must be followed again.
                _log.exception("following %s failed; starting over", self._search.root)
                await asyncio.sleep(_RETRY_SECONDS[1])

    async def ready(self) -> None:
        """Wait, for a bounded time, until all files were looked at and what is new embedded.

        Without it, a search sent together with the first words to a server would be answered
        from an index that is still empty. A slow tree or model is not waited for to the end.
        """
        for event, seconds in (
            (self._synced, _FIRST_SYNC_SECONDS),
            (self._embedded, _FIRST_EMBEDDING_SECONDS),
        ):
            try:
                async with asyncio.timeout(seconds):
                    await event.wait()
            except TimeoutError:
                _log.info("answering from an index that is still being built")

    async def _follow_files(self) -> None:
        settings = self._search.settings
        if settings.sync:
            await self._refresh(None)
        self._synced.set()
        self._changed.set()
        if not settings.watch:
            return
        from toolwatch import ToolWatchError, awatch_tools

        while True:
            try:
                async for batch in awatch_tools(self._search.root):
                    await self._refresh(None if batch.rescan else batch.paths)
                    self._changed.set()
            except (ToolWatchError, OSError) as error:
                _log.warning("watching %s failed (%s); looking again", self._search.root, error)
                await asyncio.sleep(_RETRY_SECONDS[1])
                await self._refresh(None)
                self._changed.set()

    async def _refresh(self, within: Iterable[PurePosixPath] | None) -> None:
        """Refresh until it works: a lock or a full disk must not leave the index stale."""
        attempt = 0
        while not self._search.index.read_only:
            try:
                report = await self._search.refresh(within)
            except (ToolIndexError, OSError) as error:
                _log.warning("the index could not be brought up to date: %s", error)
                await asyncio.sleep(_pause(attempt))
                attempt += 1
                # What else changed meanwhile is not known any more.
                within = None
            else:
                if report.added or report.updated or report.removed:
                    _log.info(
                        "%d tools added, %d updated, %d removed",
                        report.added,
                        report.updated,
                        report.removed,
                    )
                for issue in report.issues:
                    _log.info("left out %s: %s", issue.path, issue.detail)
                return

    async def _follow_entries(self) -> None:
        """Embed after every change, and again a while after a failure."""
        failures = 0
        while True:
            try:
                async with asyncio.timeout(_pause(failures - 1) if failures else None):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self._search.embed_pending()
                failures = 0
            except (EmbeddingError, ToolIndexError) as error:
                failures += 1
                _log.warning("vectors are missing for now: %s", error)
            self._embedded.set()


def _pause(attempt: int) -> float:
    return _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]
