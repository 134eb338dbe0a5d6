"""The index of trees of tools, opened and closed with its background work."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolindex import ToolIndex, ToolIndexError

from pytools_hybrid.index._catch_up import catch_up, stop
from pytools_hybrid.index._open_index import OpenIndex, Parts
from pytools_hybrid.index.embed import VectorWork, configured_embedder
from pytools_hybrid.index.follow import Follower
from pytools_hybrid.index.open import open_store
from pytools_hybrid.index.sync import TreeSync
from pytools_hybrid.index.usage import Recorder
from pytools_hybrid.settings import Roots, Settings, check_roots

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolembed import Embedder
    from toolindex import ToolStore

    from pytools_hybrid.settings import RootsLike

_log = logging.getLogger("pytools_hybrid")

# Opening an index does not wait long for a model that is slow to start.
_ENTERING_SECONDS = 15.0


class Index(OpenIndex):
    """The index of a tree of tools, or of several as one.

    Use it as an async context manager, which brings the index up to date on entering; after that,
    `refresh` and `embed_pending` do so, or `follow` does. It can be entered again after leaving.

    Args:
        root: The tree of tools, or several; if several have the same tool, the first one wins. None
            for the tree that the command would use. It must exist on entering, unless the index
            follows the files or is not brought up to date.
        settings: The settings; None to read them as the command does.
        embedder: The model to use instead of the one in the settings.
        refresh: Whether to bring the index up to date on entering, unless the settings turn that
            off; answers report failures.
        follow: Whether to follow the files from then on, for long-running programs.
        store: Opens the store, in a thread, each time the index is entered; by default the SQLite
            file from the settings. The index closes it on leaving.

    Attributes:
        settings: The settings.
        roots: The trees.
        embedder: The model, or None for search by words alone.

    Raises:
        SettingsError: A setting is invalid, or nothing says where the tools are; (on entering) a
            root does not exist.
        DatabaseError: (on entering) The index can be neither written nor read; (in methods) it
            cannot be read.
    """

    def __init__(
        self,
        root: RootsLike | None = None,
        settings: Settings | None = None,
        *,
        embedder: Embedder | None = None,
        refresh: bool = True,
        follow: bool = False,
        store: Callable[[Roots, Settings], ToolStore] = open_store,
    ) -> None:
        settings = Settings.from_flags({}) if settings is None else settings
        roots = _roots(settings) if root is None else Roots.of(root, settings.resolved_layouts)
        super().__init__(roots, settings, embedder or configured_embedder(settings))
        self._open_store = store
        self._refreshes = refresh and settings.sync
        self._follows = follow
        self._background: asyncio.Task[None] | None = None
        self._is_entered = False

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise RuntimeError("this index is already open; create another one")
        self._is_entered = True
        try:
            await self._enter()
        except BaseException:
            self._is_entered = False
            raise
        return self

    async def _enter(self) -> None:
        settings = self.settings
        if self._refreshes and not self._follows:
            # To follow files, or to refresh by hand, a root need not exist yet.
            check_roots(self.roots, settings.origins.get("root", "root"))
        store = await self._opened()
        sync = TreeSync(
            store,
            self.roots,
            completes=settings.sync,
            outside_links=settings.outside_links,
        )
        self._open = Parts(
            store=store,
            sync=sync,
            vectors=VectorWork(store, self.embedder, sync),
            recorder=Recorder(store, keeps_searches=settings.usage_log, repair=sync.repair),
        )
        try:
            if settings.deletes_usage and settings.follows_files and not store.read_only:
                with suppress(ToolIndexError):
                    await asyncio.to_thread(store.usage.clear)
            self._background = await self._start()
        except BaseException:
            await self._close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _opened(self) -> ToolStore:
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, self._open_store, self.roots, self.settings)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread continues, perhaps for long: another process may be creating the index.
            opening.add_done_callback(_close_late)
            raise

    async def _start(self) -> asyncio.Task[None] | None:
        """Start the background work, and return its task, if any."""
        if self._follows:
            follower = Follower(self)
            task = self._background = asyncio.create_task(follower.run())
            await follower.ready()
            return task
        if not self._refreshes or self.store.read_only:
            return None
        # Answers report failures too, if they are affected.
        if error := (await catch_up(self.sync, None)).error:
            _log.warning("the index could not be brought up to date: %s", error)
        with suppress(ToolIndexError):
            await self.warn_of_idle_patterns()
        embedding = self._background = asyncio.create_task(self._embed_in_background())
        enough = asyncio.create_task(self.vectors.embedded_sooner.wait())
        both: set[asyncio.Task[Any]] = {embedding, enough}
        await asyncio.wait(both, timeout=_ENTERING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        enough.cancel()
        return embedding

    async def _embed_in_background(self) -> None:
        if error := (await catch_up(None, self.vectors)).error:
            _log.warning("vectors are missing for now: %s", error)

    async def _close(self) -> None:
        parts = self._parts
        try:
            # The background work needs all parts until it has ended.
            if self._background is not None:
                await stop(self._background)
            await parts.sync.aclose()
            await parts.recorder.aclose()
        finally:
            # Only the caller may remove a store that it opened.
            is_own = self._open_store is open_store and self.settings.server is None
            is_left = not is_own or not await self._is_empty()
            parts.store.close()
            if not is_left:
                await asyncio.to_thread(_remove_empty, Path(parts.store.where))
            self._background = self._open = None
            self._is_entered = False

    async def _is_empty(self) -> bool:
        """Return whether the index has no tools: a misspelt root must not leave a file behind."""
        if self.store.read_only:
            return False
        with suppress(ToolIndexError):
            return (await self.look(lambda reader: reader.coverage(""))).tools == 0
        return False


def _remove_empty(database: Path) -> None:
    # An index that is open elsewhere, or a file that is not an index, is kept.
    with suppress(ToolIndexError, OSError):
        ToolIndex.remove(database, only_empty=True)


def _close_late(opening: asyncio.Future[ToolStore]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _roots(settings: Settings) -> Roots:
    roots, note = settings.resolved_root()
    if note:
        _log.info("%s", note)
    return roots
