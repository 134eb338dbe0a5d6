"""The index of trees of tools: opened, brought up to date, repaired, closed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolindex import DatabaseError, ToolFilter, ToolIndexError, remove_index

from pytools_hybrid.index._catch_up import CatchUp, IndexState, catch_up, stop
from pytools_hybrid.index._embed import VectorWork, configured_embedder
from pytools_hybrid.index._opening import open_store
from pytools_hybrid.index._shared import SharedIndex, away_note
from pytools_hybrid.index._sync import TreeSync
from pytools_hybrid.index._usage import Recorder
from pytools_hybrid.settings import Roots, Settings, check_roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import PurePosixPath

    from toolembed import LimitedEmbedder
    from toolindex import Coverage, StoreReader, SyncReport, ToolStore, UsageStatistics
    from toolindex.protocols import UsageStore
    from toolscan import ToolRecord

    from pytools_hybrid.settings import RootsLike

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

# Opening an index does not wait long for a model that is slow to start.
_ENTERING_SECONDS = 15.0
_USAGE_DAYS = 90.0
_USAGE_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """The parts of an index that exist while it is open."""

    store: ToolStore
    sync: TreeSync
    vectors: VectorWork
    recorder: Recorder


class Index:
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
        embedder: LimitedEmbedder | None = None,
        refresh: bool = True,
        follow: bool = False,
        store: Callable[[Roots, Settings], ToolStore] = open_store,
    ) -> None:
        self.settings: Settings = Settings.from_flags({}) if settings is None else settings
        self.roots: Roots = (
            _roots(self.settings)
            if root is None
            else Roots.of(root, self.settings.resolved_layouts)
        )
        self.embedder: LimitedEmbedder | None = embedder or configured_embedder(self.settings)
        self._open_store = store
        self._refreshes = refresh and self.settings.sync
        self._follows = follow
        self._background: asyncio.Task[None] | None = None
        self._is_entered = False
        self._open: _Open | None = None

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
            max_tools=settings.max_tools,
        )
        self._open = _Open(
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
            # Only long-running programs need this import.
            from pytools_hybrid.index._follow import Follower

            follower = Follower(self)
            task = self._background = asyncio.create_task(follower.run())
            await follower.ready()
            return task
        if not self._refreshes or self.store.read_only:
            return None
        # Answers report failures too, if they are affected.
        if error := (await catch_up(self.sync, None)).error:
            _log.warning("the index could not be brought up to date: %s", error)
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

    @property
    def _parts(self) -> _Open:
        if self._open is None:
            raise RuntimeError(
                "this index is not open: use it inside `async with ToolSearch(…) as tools:`"
            )
        return self._open

    @property
    def is_open(self) -> bool:
        """Whether the index has been entered and not left."""
        return self._open is not None

    @property
    def store(self) -> ToolStore:
        """The open store."""
        return self._parts.store

    @property
    def sync(self) -> TreeSync:
        """Keeps the store up to date with the trees."""
        return self._parts.sync

    @property
    def vectors(self) -> VectorWork:
        """Embeds the tools."""
        return self._parts.vectors

    @property
    def recorder(self) -> Recorder:
        """Records searches and outcomes."""
        return self._parts.recorder

    async def refresh(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        trusts_stamps: bool = True,
        progress: Callable[[int], object] | None = None,
    ) -> SyncReport:
        """Bring the index up to date with all files, or those at some paths.

        An index that turns out to be damaged is renamed and rebuilt.

        Args:
            within: The paths, relative to each root.
            trusts_stamps: Whether to skip files with unchanged size and times.
            progress: Called from a thread with the number of files scanned so far.

        Raises:
            LeaseHeldError: Another process has been refreshing the index for half a minute.
            DatabaseError: The index cannot be written.
            RootUnreadableError: A root cannot be listed; the others are up to date.
        """
        return await self.sync.refresh(within, trusts_stamps=trusts_stamps, progress=progress)

    async def bring_up_to_date(
        self,
        *,
        vectors: bool = True,
        patience: float | None = None,
        trusts_stamps: bool = True,
        progress: Callable[[str, int, int | None], object] | None = None,
    ) -> CatchUp:
        """Bring the index up to date with the files and embed new texts.

        Failures are returned, not raised, because searches work nevertheless.

        Args:
            vectors: Whether to embed.
            patience: How many seconds to wait for the next vector of a slow model; None for a
                caller who needs all vectors. Otherwise somebody is waiting for an answer: if there
                is a faster model, that one embeds everything new, and the wanted one only a few
                tools.
            trusts_stamps: As for `refresh`.
            progress: Called from any thread with the current step, how much of it is done, and the
                total if that is known.
        """
        return await catch_up(
            self.sync,
            self.vectors if vectors else None,
            patience=patience,
            at_once=patience is not None,
            trusts_stamps=trusts_stamps,
            progress=progress,
        )

    async def check(self) -> Sequence[str]:
        """Check the whole index, regardless of the files.

        A damaged file is renamed, and the next refresh creates a new one.

        Returns:
            Its inconsistencies, as sentences; `rebuild` fixes them.

        Raises:
            DatabaseError: The index can be neither read nor written.
        """
        return await self.sync.with_repair(lambda: asyncio.to_thread(self.store.check))

    async def rebuild(self, *, forget_vectors: bool = False) -> None:
        """Rebuild the search tables; the next refresh reads every file again.

        Args:
            forget_vectors: Have the model embed all tools again, too. It has to return one vector
                first, and its old vectors are used until they are replaced.

        Raises:
            EmbeddingError: The model returned no vector; nothing has changed.
            DatabaseError: The index cannot be written; nothing has changed.
        """
        forget: str | None = None
        if forget_vectors and self.embedder is not None:
            given = len(await self.embedder.embed_query("tool"))
            forget = self.embedder.model_id
            await asyncio.to_thread(self.store.use_model, forget, dimensions=given)
        await self.sync.with_repair(lambda: asyncio.to_thread(self.store.rebuild, forget=forget))

    async def embed_pending(self, progress: Callable[[int, int], object] | None = None) -> int:
        """Embed the texts that the model has not embedded yet, storing each batch as it arrives.

        Args:
            progress: Called with the number of texts embedded so far, and the total.

        Returns:
            How many texts were embedded.

        Raises:
            EmbeddingError: The model returned no vectors; earlier ones are stored.
            ToolIndexError: Its vectors cannot be stored.
        """
        return await self.vectors.embed(progress)

    async def compare_model(self) -> str:
        """Ask the model for a vector, and return how its length differs from those in the index.

        Raises:
            EmbeddingError: The model returned no vector.
        """
        return await self.vectors.compare()

    @property
    def has_all_vectors(self) -> bool:
        """Whether the last `embed_pending` left no text without a vector."""
        return self.vectors.is_done

    async def refused(self) -> dict[str, str]:
        """Return the ids of tools whose text the model has refused, with its reasons."""
        return await self.vectors.refused()

    async def coverage(self) -> Coverage:
        """Count the tools in the index, and those with a vector of the model."""
        return (await self.state()).coverage

    async def changed_at(self) -> float | None:
        """Return when a tool was last added or updated, in seconds since 1970; None without any.

        This reads every tool.
        """
        return await self.look(lambda reader: reader.changed_at())

    def stored_record(self, tool_id: str) -> ToolRecord:
        """Return a shared index's record of a tool's file; call it from a thread.

        Raises:
            DatabaseError: The server cannot be reached, or has no such tool.
        """
        store = self.store
        found = store.records([tool_id]) if isinstance(store, SharedIndex) else ()
        if not found:
            raise DatabaseError(store.where, f"the tool {tool_id} is gone")
        return found[0]

    async def away(self, *, asks: bool = False) -> str:
        """Return the note of answers while the server of a shared index is unreachable, or "".

        Args:
            asks: Whether to ask the server; otherwise the note is of the last look at the index,
                and nobody waits.
        """
        if not isinstance(self.store, SharedIndex):
            return ""
        return await asyncio.to_thread(away_note, self.store, asks=asks)

    async def waiting(self) -> int:
        """Return how many searches and outcomes have not been sent to the server yet."""
        store = self.store
        return (
            (await asyncio.to_thread(store.freshness)).waiting
            if isinstance(store, SharedIndex)
            else 0
        )

    async def state(self) -> IndexState:
        """Return the generation and the coverage of the index, from the same moment."""
        model_id = self.embedder.model_id if self.embedder is not None else ""
        return await self.look(
            lambda reader: IndexState(
                generation=reader.generation(),
                coverage=reader.coverage(model_id),
            )
        )

    async def idle_patterns(self) -> tuple[str, ...]:
        """Return the include and exclude patterns that match no tool: they may be misspelt."""
        patterns = (*self.settings.include, *self.settings.exclude)

        def idle(reader: StoreReader) -> tuple[str, ...]:
            return tuple(it for it in patterns if not reader.categories(ToolFilter(include=[it])))

        return await self.look(idle) if patterns else ()

    async def flush(self) -> None:
        """Write pending records of searches now rather than a moment later."""
        if self._open is not None:
            await self.recorder.flush()

    async def statistics(self, *, since: float | None = None) -> UsageStatistics:
        """Summarize the usage record.

        Args:
            since: Leave out older records, in seconds since 1970.
        """
        return await self.recorded(lambda usage: usage.statistics(since=since))

    async def recorded(self, read: Callable[[UsageStore], T]) -> T:
        """Read the usage record in a thread, together with what was noted last."""
        await self.recorder.flush_unless_failing()
        return await self.sync.with_repair(lambda: asyncio.to_thread(read, self.store.usage))

    async def tidy(self) -> None:
        """Delete old vectors that no tool needs, and the oldest usage records.

        Raises:
            DatabaseError: The index cannot be written.
        """
        usage = self.store.usage
        if usage.read_only:
            return
        if not self.store.read_only:
            for used in filter(None, (self.vectors.sooner, self.embedder)):
                await asyncio.to_thread(self.store.use_model, used.model_id)
            await asyncio.to_thread(self.store.prune)
        if self.settings.usage_log:
            await asyncio.to_thread(usage.retain, max_age_days=_USAGE_DAYS, max_rows=_USAGE_ROWS)
        elif self.settings.deletes_usage:
            await asyncio.to_thread(usage.clear)

    async def look(self, at: Callable[[StoreReader], T]) -> T:
        """Read the current state of the index, in a thread."""

        def look() -> T:
            with self.store.reading() as reader:
                return at(reader)

        return await self.sync.with_repair(lambda: asyncio.to_thread(look))


def _remove_empty(database: Path) -> None:
    # An index that is open elsewhere, or a file that is not an index, is kept.
    with suppress(ToolIndexError, OSError):
        remove_index(database, only_empty=True)


def _close_late(opening: asyncio.Future[ToolStore]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _roots(settings: Settings) -> Roots:
    roots, note = settings.resolved_root()
    if note:
        _log.info("%s", note)
    return roots
