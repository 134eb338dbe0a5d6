"""Following files: keeping an index up to date while a program runs, and waiting for it."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import aclosing, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from toolembed import Backoff, EmbeddingError, FailureKind
from toolindex import ToolIndexError

from pytools_hybrid.errors import IndexNotReadyError, innermost
from pytools_hybrid.index.sync import SCANNING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from toolindex import SyncReport
    from toolscan import ScanIssue
    from toolwatch import ChangeBatch

    from pytools_hybrid.index.index import Index

_log = logging.getLogger("pytools_hybrid")

_UPDATING = Backoff(first=0.5, longest=5.0)
# Together with a request's time limit, a recovered model is noticed within 20 seconds. After an
# error such as a wrong key, a provider is called less often.
_EMBEDDING = Backoff(first=1.0, longest=8.0)
_EMBEDDING_UNAVAILABLE = Backoff(first=1.0, longest=30.0)
_REFUSED_SECONDS = 10.0
_RESTART_PAUSE = 2.0
_READ_ONLY_PAUSE = 30.0
# A scan may read what exists only for a moment, which the watcher need not have noticed. So places
# where a scan found changes are scanned again, until it finds none. The number is limited, because
# processes with other versions, settings or files may undo each other's changes.
_CONFIRMING = Backoff(first=1.0, longest=30.0, tries=5)
_TIDY_AFTER = 30.0
_TIDY_EVERY = 6 * 3600.0
# How long callers wait: MCP clients wait a minute at most.
_OPENING_SECONDS = 45.0
_FIRST_SYNC_SECONDS = 10.0
_FIRST_TOOLS_SECONDS = 45.0
_FIRST_EMBEDDING_SECONDS = 2.0
_PROGRESS_SECONDS = 1.0


class Follower:
    """Brings an index up to date, and keeps it so as files change.

    The index has to be open when `run` is called; callers may wait before that. Failures are
    retried with growing delays, and do not interrupt searches.

    Args:
        index: The index.
        on_sync: Called after an update that changed the index or left out further files.
    """

    def __init__(
        self, index: Index, *, on_sync: Callable[[SyncReport], object] | None = None
    ) -> None:
        self._index = index
        self._on_sync = on_sync
        self._issues: set[ScanIssue] = set()
        # Places to scan again; None: everywhere.
        self._unconfirmed: set[PurePosixPath] | None = set()
        self._is_unconfirmed = asyncio.Event()
        self._warned = set[str]()
        self._open = asyncio.Event()
        self._scanned = asyncio.Event()
        self._embedded = asyncio.Event()
        self._created_at = asyncio.get_running_loop().time()
        self._opened_at = self._scanned_at = self._created_at

    async def wait_until_ready(
        self, progress: Callable[[float, str], Awaitable[None]] | None = None
    ) -> None:
        """Wait until all files are scanned and new tools embedded, for a limited time.

        Without it, a search that arrives with the first message to a server would be answered from
        an empty index. The limits count from the start and from the end of the first scan, so that
        a slow tree, or a slow or failing model, does not delay callers. They only wait longer while
        there are no tools at all.

        Args:
            progress: Called now and then during the wait, with the seconds so far and the current
                step.

        Raises:
            IndexNotReadyError: Opening the index takes too long.
        """
        if not await self.wait_until_scanned(progress):
            # Any process may add tools.
            until = self._opened_at + _FIRST_TOOLS_SECONDS
            loop = asyncio.get_running_loop()
            while not (self._scanned.is_set() or (await self._index.coverage()).tools):
                if (now := loop.time()) >= until:
                    break
                soon = min(until, now + _PROGRESS_SECONDS)
                await self._wait(self._scanned, soon, progress, SCANNING)
        until = self._scanned_at + _FIRST_EMBEDDING_SECONDS
        await self._wait(self._embedded, until, progress, "embedding new tools")

    async def wait_until_open(
        self,
        progress: Callable[[float, str], Awaitable[None]] | None = None,
        *,
        within: float | None = None,
    ) -> bool:
        """Wait until the index is open, `within` seconds from the start; return whether it is."""
        until = self._created_at + (_OPENING_SECONDS if within is None else within)
        return await self._wait(self._open, until, progress, "opening the index")

    async def wait_until_scanned(
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
        if not await self.wait_until_open(progress):
            raise IndexNotReadyError
        until = self._opened_at + (_FIRST_SYNC_SECONDS if within is None else within)
        return await self._wait(self._scanned, until, progress, SCANNING)

    async def _wait(
        self,
        event: asyncio.Event,
        until: float,
        progress: Callable[[float, str], Awaitable[None]] | None,
        step: str,
    ) -> bool:
        loop = asyncio.get_running_loop()
        while not event.is_set() and (now := loop.time()) < until:
            if progress is not None:
                indexing = self._index.sync.progress if self._open.is_set() else None
                far = f": {indexing}" if indexing else ""
                await progress(round(now - self._created_at, 3), f"{step}{far}")
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, now + _PROGRESS_SECONDS)):
                    await event.wait()
        return event.is_set()

    def _note_scanned(self) -> None:
        if not self._scanned.is_set():
            self._scanned_at = asyncio.get_running_loop().time()
            self._scanned.set()

    @property
    def _watches(self) -> bool:
        settings = self._index.settings
        return settings.watch and not settings.only_reads

    async def run(self) -> None:
        """Work until cancelled, or until there is nothing to follow."""
        self._opened_at = self._scanned_at = asyncio.get_running_loop().time()
        self._open.set()
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._follow_files())
                    settings = self._index.settings
                    if self._watches:
                        tasks.create_task(self._confirm())
                    if settings.follows_files:
                        tasks.create_task(self._follow_entries())
                    # A host that only reads a shared index still adds to its usage record.
                    if settings.follows_files or settings.server is not None:
                        tasks.create_task(self._tidy())
                return
            except Exception as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    # The error took the place of a cancellation, which will not be repeated.
                    problem = innermost(error)
                    _log.info("stopping to follow %s failed: %s", self._index.roots, problem)
                    raise asyncio.CancelledError from error
                # The files have to be followed, whatever the error is.
                _log.exception("following %s failed; restarting", self._index.roots)
                await asyncio.sleep(_RESTART_PAUSE)

    async def _follow_files(self) -> None:
        settings = self._index.settings
        if settings.sync:
            await self._update(None)
        self._note_scanned()
        if settings.follows_files:
            self._index.sync.changed.set()
        else:
            self._embedded.set()
        await self._warn_of_idle_patterns()
        if not self._watches:
            return
        from toolwatch import ToolWatchError, awatch_tools

        roots = self._index.roots
        # The first batch of each root asks for a full scan; it is ignored if the start had none.
        passed = {root.absolute() for root in roots} if settings.sync else set[Path]()
        while True:
            try:
                async with aclosing(awatch_tools(roots)) as batches:
                    async for batch in batches:
                        if batch.rescan and batch.root not in passed:
                            passed.add(batch.root)
                        elif batch.rescan:
                            await self._update_unconfirmed(None)
                        elif paths := self._without_own(batch):
                            await self._update_unconfirmed(paths)
            except (ToolWatchError, OSError) as error:
                _log.warning("watching %s failed (%s); retrying", roots, error)
                await asyncio.sleep(_RESTART_PAUSE)
                await self._update(None)

    async def _update_unconfirmed(self, within: Collection[PurePosixPath] | None) -> None:
        """Update, and again after a moment if anything has changed."""
        is_changed, within = await self._update(within)
        if is_changed:
            self._note_unconfirmed(within)

    def _note_unconfirmed(self, within: Collection[PurePosixPath] | None) -> None:
        known = self._unconfirmed
        self._unconfirmed = None if known is None or within is None else known.union(within)
        self._is_unconfirmed.set()

    async def _confirm(self) -> None:
        scans = 0
        while True:
            await self._is_unconfirmed.wait()
            scans += 1
            await asyncio.sleep(_CONFIRMING.delay(scans))
            self._is_unconfirmed.clear()
            within, self._unconfirmed = self._unconfirmed, set()
            is_changed, scanned = await self._update(within)
            if is_changed and scans < _CONFIRMING.tries:
                self._note_unconfirmed(scanned)
            else:
                scans = 0

    async def _update(
        self, within: Collection[PurePosixPath] | None
    ) -> tuple[bool, Collection[PurePosixPath] | None]:
        """Update until it works: a lock or a full disk must not leave the index stale.

        Returns:
            Whether tools may have been added, updated or removed, and where.
        """
        failures = 0
        while True:
            if not await asyncio.to_thread(self._index.store.try_writing):
                # The disk may have been full; answers say that the index is out of date.
                self._note_scanned()
                self._embedded.set()
                await asyncio.sleep(_READ_ONLY_PAUSE)
                within = None
                continue
            result = await self._index.update(within, vectors=False)
            if result.report is None or result.files_error is not None:
                _log.warning("the index could not be brought up to date: %s", result.files_error)
                self._note_scanned()
                self._embedded.set()
                failures += 1
                await asyncio.sleep(_UPDATING.delay(failures))
                # Other changes in the meantime are unknown.
                within = None
                continue
            self._report(result.report, is_all=within is None, is_changed=result.is_changed)
            if result.is_changed and self._scanned.is_set():
                await self._warn_of_idle_patterns()
            # What a failed update has stored is unknown.
            return result.is_changed or failures > 0, within

    def _report(self, report: SyncReport, *, is_all: bool, is_changed: bool) -> None:
        """Log what an update changed, and files that are left out for the first time."""
        if is_changed:
            _log.info(
                "%d tools added, %d updated, %d removed",
                report.added,
                report.updated,
                report.removed,
            )
        issues = set(report.issues)
        news = issues - self._issues
        self._issues = issues if is_all else self._issues | issues
        if self._on_sync is not None and (is_changed or news):
            self._on_sync(report)
        for issue in sorted(news, key=lambda it: it.path):
            _log.info("left out %s: %s", self._index.roots.short_path(issue.path), issue.detail)
        # Each broken file once, unless `on_sync` reports it.
        broken = {str(tool) for tool in self._index.sync.broken.values()}
        for note in sorted(broken - self._warned) if self._on_sync is None else ():
            _log.warning("%s", note)
        self._warned = broken

    def _without_own(self, batch: ChangeBatch) -> list[PurePosixPath]:
        """Leave out the index itself: its own writes would trigger endless updates."""
        try:
            own = Path(self._index.store.where).relative_to(os.path.realpath(batch.root))
        except ValueError:
            return list(batch.paths)
        folder, name = PurePosixPath(own.parent.as_posix()), own.name
        return [
            path for path in batch.paths if path.parent != folder or not path.name.startswith(name)
        ]

    async def _warn_of_idle_patterns(self) -> None:
        with suppress(ToolIndexError):
            await self._index.warn_of_idle_patterns()

    async def _follow_entries(self) -> None:
        """Embed after every change, and again some time after a failure or a refusal."""
        failures, logged = 0, ""
        delay: float | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._index.sync.changed.wait()
            self._index.sync.changed.clear()
            # During the first scan, not all new texts are known yet.
            is_all = self._scanned.is_set()
            try:
                await self._embed(is_all=is_all)
                failures, logged = 0, ""
                delay = None if self._index.vectors.is_done else _REFUSED_SECONDS
            except Exception as error:  # noqa: BLE001 - a model may fail with anything
                failures += 1
                delay = _delay(error, failures)
                if str(error) != logged:
                    logged = str(error)
                    _log.warning("vectors are missing for now: %s", error)
            if is_all:
                self._embedded.set()

    async def _embed(self, *, is_all: bool) -> None:
        vectors, changed = self._index.vectors, self._index.sync.changed
        if vectors.interim is None:
            await vectors.embed()
            return
        await vectors.embed_interim()
        if is_all:
            self._embedded.set()
        work, is_news = asyncio.create_task(vectors.embed()), False
        try:
            while not work.done():
                news = asyncio.create_task(changed.wait())
                either: set[asyncio.Task[Any]] = {work, news}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                await stop(news)
                if changed.is_set() and not work.done():
                    changed.clear()
                    is_news = True
                    await vectors.embed_interim()
            await work
        finally:
            await stop(work)
        if is_news:
            # The change may have come too late for the wanted model.
            changed.set()

    async def _tidy(self) -> None:
        """Delete old data, rarely and not at the start."""
        await asyncio.sleep(_TIDY_AFTER)
        while True:
            try:
                await self._index.tidy()
            except ToolIndexError as error:
                _log.info("the index could not be tidied: %s", error)
            await asyncio.sleep(_TIDY_EVERY)


async def stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, even if the caller is cancelled."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _delay(error: Exception, failures: int) -> float:
    """Return the seconds until the next attempt to embed."""
    if not isinstance(error, EmbeddingError):
        return _EMBEDDING.delay(failures)
    is_unavailable = error.kind is FailureKind.UNAVAILABLE
    backoff = _EMBEDDING_UNAVAILABLE if is_unavailable else _EMBEDDING
    return backoff.delay(failures, error.retry_after)
