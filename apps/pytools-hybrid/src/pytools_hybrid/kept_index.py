"""An index that is kept in step with trees of tools: opened, brought up to date, mended, closed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from toolindex import ToolIndexError, remove_index

from pytools_hybrid.answering import Answering
from pytools_hybrid.catching_up import catch_up, stop
from pytools_hybrid.ranking import Searcher
from pytools_hybrid.recorder import Recorder
from pytools_hybrid.roots import Roots
from pytools_hybrid.settings import Settings
from pytools_hybrid.state import IndexState
from pytools_hybrid.store import open_store
from pytools_hybrid.syncing import TreeSync
from pytools_hybrid.vectors import VectorWork, configured_embedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path, PurePosixPath
    from types import TracebackType

    from toolindex import Coverage, StoreReader, SyncReport, UsageStatistics

    from pytools_hybrid.embedding import LimitedEmbedder
    from pytools_hybrid.roots import RootsLike
    from pytools_hybrid.store import SQLiteStore

__all__ = ["KeptIndex"]

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

_USAGE_DAYS = 90.0
_USAGE_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """What there is between entering and leaving."""

    index: SQLiteStore
    sync: TreeSync
    vectors: VectorWork
    recorder: Recorder
    answering: Answering


class KeptIndex:
    """The index of a tree of tools, or of several as one, as long as it is open.

    `ToolSearch` adds what is asked of it; the arguments are described there.
    """

    def __init__(
        self,
        root: RootsLike | None,
        settings: Settings | None,
        *,
        embedder: LimitedEmbedder | None,
        refresh: bool,
    ) -> None:
        self.settings: Settings = Settings.from_flags({}) if settings is None else settings
        self.roots: Roots = _roots(self.settings) if root is None else Roots.of(root)
        self._database = self.settings.resolved_database(self.roots)
        self._embedder = embedder or configured_embedder(self.settings)
        self._refreshes = refresh and self.settings.sync
        self._background: asyncio.Task[None] | None = None
        self._is_entered = False
        self._open: _Open | None = None

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise RuntimeError("this ToolSearch is open already; make another one")
        self._is_entered = True
        try:
            await self._enter()
        except BaseException:
            self._is_entered = False
            raise
        return self

    async def _enter(self) -> None:
        settings = self.settings
        index = await self._opened()
        searcher = Searcher(
            index,
            bm25_weight=settings.bm25_weight,
            vec_weight=settings.vec_weight,
            fusion=settings.fusion,
            rrf_k=settings.rrf_k,
        )
        sync = TreeSync(
            index,
            self.roots,
            completes=settings.sync,
            outside_links=settings.outside_links,
            max_tools=settings.max_tools,
        )
        recorder = Recorder(index, keeps_searches=settings.usage_log, mend=sync.mend)
        self._open = _Open(
            index=index,
            sync=sync,
            vectors=VectorWork(index, self._embedder, sync),
            recorder=recorder,
            answering=Answering(index, searcher, recorder, self._embedder),
        )
        try:
            if settings.deletes_usage and settings.follows_files and not index.read_only:
                with suppress(ToolIndexError):
                    await asyncio.to_thread(index.usage.clear)
            self._background = await self._start()
        except BaseException:
            await self._close()
            raise

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    async def _opened(self) -> SQLiteStore:
        loop = asyncio.get_running_loop()
        weights = self.settings.field_weights
        opening = loop.run_in_executor(None, open_store, self._database, self.roots, weights)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on, and may take long: another process may be making the index.
            opening.add_done_callback(_close_late)
            raise

    async def _start(self) -> asyncio.Task[None] | None:
        """Begin what goes on while it is open, and give the task, if there is one."""
        if self._refreshes and not self.index.read_only:
            return await catch_up(self.sync, self._vectors)
        return None

    async def _close(self) -> None:
        parts = self._parts
        try:
            # What goes on in the background finds all in its place until it has ended.
            if self._background is not None:
                await stop(self._background)
            await parts.sync.aclose()
            await parts.recorder.aclose()
        finally:
            is_empty = await self._is_empty()
            parts.index.close()
            if is_empty:
                await asyncio.to_thread(_remove_empty, parts.index.path)
            self._background = self._open = None
            self._is_entered = False

    async def _is_empty(self) -> bool:
        """Return whether the index has no tools: a misspelt root must leave no file behind."""
        if self.index.read_only:
            return False
        with suppress(ToolIndexError):
            return (await self._look(lambda reader: reader.coverage(""))).tools == 0
        return False

    @property
    def _parts(self) -> _Open:
        if self._open is None:
            raise RuntimeError(
                "this ToolSearch is not open: use it inside `async with ToolSearch(…) as tools:`"
            )
        return self._open

    @property
    def _vectors(self) -> VectorWork:
        return self._parts.vectors

    @property
    def _recorder(self) -> Recorder:
        return self._parts.recorder

    @property
    def _answering(self) -> Answering:
        return self._parts.answering

    @property
    def sync(self) -> TreeSync:
        """What keeps the index equal to the trees."""
        return self._parts.sync

    @property
    def index(self) -> SQLiteStore:
        """The open index."""
        return self._parts.index

    async def refresh(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        trusts_stamps: bool = True,
        progress: Callable[[int], object] | None = None,
    ) -> SyncReport:
        """Make the index equal to the files: all, or those at some paths.

        An index that turns out to be damaged is set aside and made anew.

        Args:
            within: Those paths, relative to each of the roots.
            trusts_stamps: Whether a file that looks as it did, by size and times, is not read.
            progress: Called from a thread with the number of files looked at so far.

        Raises:
            LeaseHeldError: Another process has been at it for half a minute.
            DatabaseError: The index cannot be written.
            RootUnreadableError: A root cannot be listed; the others are up to date.
        """
        return await self.sync.refresh(within, trusts_stamps=trusts_stamps, progress=progress)

    async def check(self) -> tuple[str, ...]:
        """Look the whole index through, whatever the files are.

        A file that is damaged is set aside, and made anew by the next refresh.

        Returns:
            Where it does not agree with itself, in sentences; `rebuild` mends that.

        Raises:
            DatabaseError: The index can be neither read nor written.
        """
        return await self.sync.mending(lambda: asyncio.to_thread(self.index.check))

    async def rebuild(self, *, forget_vectors: bool = False) -> None:
        """Make the search tables again; the next refresh reads every file anew.

        Args:
            forget_vectors: Have the model embed all tools again, too. It is asked for one vector
                first, and what it gave before serves until it is replaced.

        Raises:
            EmbeddingError: The model gives none; nothing has changed.
            DatabaseError: The index cannot be written; nothing has changed.
        """
        forget: str | None = None
        if forget_vectors and self._embedder is not None:
            given = len(await self._embedder.embed_query("tool"))
            forget = self._embedder.model_id
            await asyncio.to_thread(self.index.use_model, forget, dimensions=given)
        await self.sync.mending(lambda: asyncio.to_thread(self.index.rebuild, forget=forget))

    async def embed_pending(self, progress: Callable[[int, int], object] | None = None) -> int:
        """Embed what the model has not embedded yet, storing each batch as it comes.

        Args:
            progress: Called with the number of texts embedded so far, and of all.

        Returns:
            How many texts were embedded.

        Raises:
            EmbeddingError: The model gave no vectors; what came before is stored.
            ToolIndexError: Its vectors cannot be stored.
        """
        return await self._vectors.embed(progress)

    async def compare_model(self) -> str:
        """Ask the model for a vector; return how its length differs from the index's, if it does.

        Raises:
            EmbeddingError: The model gives none.
            DatabaseError: The index cannot be read.
        """
        return await self._vectors.compare()

    @property
    def has_all_vectors(self) -> bool:
        """Whether the last `embed_pending` left no text to be asked for again."""
        return self._vectors.is_done

    async def refused(self) -> dict[str, str]:
        """Give the tools whose text the model has refused, by id, with its reasons.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return await self._vectors.refused()

    async def coverage(self) -> Coverage:
        """Count the tools in the index, and those that the model has given vectors.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return (await self.state()).coverage

    async def changed_at(self) -> float | None:
        """Give when a tool was last added or updated, in seconds since 1970; None without any.

        Every tool is looked at for it.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return await self._look(lambda reader: reader.changed_at())

    async def state(self) -> IndexState:
        """Give the generation and the coverage of the index, both of one moment.

        Raises:
            DatabaseError: The index cannot be read.
        """
        model_id = self._embedder.model_id if self._embedder is not None else ""
        return await self._look(
            lambda reader: IndexState(
                generation=reader.generation(),
                coverage=reader.coverage(model_id),
            )
        )

    async def flush(self) -> None:
        """Write what has been noted of searches, which else happens a moment later."""
        if self._open is not None:
            await self._recorder.flush()

    async def statistics(self, *, since: float | None = None) -> UsageStatistics:
        """Sum the usage record up.

        Args:
            since: Leave out what is older, in seconds since 1970.

        Raises:
            DatabaseError: The index cannot be read.
        """
        await self._recorder.flush_unless_failing()
        return await self.sync.mending(
            lambda: asyncio.to_thread(self.index.usage.statistics, since=since)
        )

    async def tidy(self) -> None:
        """Forget old vectors that no tool needs, and the oldest of the usage record.

        Raises:
            DatabaseError: The index cannot be written.
        """
        if self.index.read_only:
            return
        if self._embedder is not None:
            await asyncio.to_thread(self.index.use_model, self._embedder.model_id)
        await asyncio.to_thread(self.index.prune)
        usage = self.index.usage
        if self.settings.usage_log:
            await asyncio.to_thread(usage.retain, max_age_days=_USAGE_DAYS, max_rows=_USAGE_ROWS)
        elif self.settings.deletes_usage:
            await asyncio.to_thread(usage.clear)

    async def _look(self, at: Callable[[StoreReader], T]) -> T:
        """Look at the state that the index has now, in a thread."""

        def look() -> T:
            with self.index.reading() as reader:
                return at(reader)

        return await self.sync.mending(lambda: asyncio.to_thread(look))


def _remove_empty(database: Path) -> None:
    # An index that somebody has open, or a file that is not an index, is kept.
    with suppress(ToolIndexError, OSError):
        remove_index(database, only_empty=True)


def _close_late(opening: asyncio.Future[SQLiteStore]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _roots(settings: Settings) -> Roots:
    roots, note = settings.resolved_root()
    if note:
        _log.info("%s", note)
    return roots
