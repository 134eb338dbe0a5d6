"""The index of trees of tools: opened with its background work, updated, read and tidied."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolindex import DatabaseError, ToolFilter, ToolIndex, ToolIndexError

from pytools_hybrid.errors import RootUnreadableError
from pytools_hybrid.index.embed import EmbeddingBackfill, configured_embedder
from pytools_hybrid.index.follow import Follower, stop
from pytools_hybrid.index.open import SharedIndex, open_store
from pytools_hybrid.index.sync import SYNC_ERRORS, TreeSync
from pytools_hybrid.index.usage import Recorder
from pytools_hybrid.settings import IDLE_PATTERN, Roots, Settings, check_roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import PurePosixPath

    from toolembed import Embedder
    from toolindex import Coverage, StoreReader, SyncReport, ToolStore, UsageStatistics
    from toolindex_postgres import Freshness

    from pytools_hybrid.index.sync import Progress
    from pytools_hybrid.settings import RootsLike

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

# Opening an index does not wait long for a model that is slow to start.
_ENTERING_SECONDS = 15.0
_USAGE_DAYS = 90.0
_USAGE_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """The result of updating an index, with what failed.

    Attributes:
        report: What changed with the files; None if they were not scanned, or could not be.
        embedded: How many texts were embedded.
        files_error: Why the index does not match all files, or None.
        vectors_error: Why some tools have no vectors, or None.
    """

    report: SyncReport | None = None
    embedded: int = 0
    files_error: Exception | None = None
    vectors_error: Exception | None = None

    @property
    def error(self) -> Exception | None:
        """The first error, or None."""
        return self.files_error or self.vectors_error

    @property
    def is_changed(self) -> bool:
        """Whether the update has changed the index."""
        report = self.report
        changed = report is not None and (report.added or report.updated or report.removed)
        return bool(changed or self.embedded)

    def raise_for_error(self) -> Self:
        """Raise the first error, if any; otherwise return the result."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """The content of an index at one moment.

    Attributes:
        generation: The number of the state, which increases with every change.
        coverage: How many tools there are, and how many have vectors of the model.
    """

    generation: int
    coverage: Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of an index that exist while it is open."""

    store: ToolStore
    sync: TreeSync
    vectors: EmbeddingBackfill
    recorder: Recorder


class Index:
    """The index of a tree of tools, or of several as one.

    Use it as an async context manager, which updates the index on entering; after that, `update`
    does so, or `follow` does. It can be entered again after leaving.

    Args:
        root: The tree of tools, or several; if several have the same tool, the first one wins. None
            for the tree that the command would use. It must exist on entering, unless the index
            follows the files or is not updated.
        settings: The settings; None to read them as the command does.
        embedder: The model to use instead of the one in the settings.
        refresh: Whether to update the index on entering, unless the settings turn that off; answers
            report failures.
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
        self.settings: Settings = Settings.from_flags({}) if settings is None else settings
        self.roots: Roots = (
            _configured_roots(self.settings)
            if root is None
            else Roots.of(root, self.settings.resolved_layouts)
        )
        self.embedder: Embedder | None = embedder or configured_embedder(self.settings)
        self._open_store = store
        self._updates = refresh and self.settings.sync
        self._follows = follow
        self._background: asyncio.Task[None] | None = None
        self._is_entered = False
        self._open: _Parts | None = None
        self._warned_of: frozenset[tuple[str, str]] = frozenset()

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
        if self._updates and not self._follows:
            # To follow files, or to update later, a root need not exist yet.
            check_roots(self.roots, settings.origins.get("root", "root"))
        opening = asyncio.get_running_loop().run_in_executor(
            None, self._open_store, self.roots, settings
        )
        try:
            store = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread continues, perhaps for long: another process may be creating the index.
            opening.add_done_callback(_close_late)
            raise
        sync = TreeSync(
            store, self.roots, completes=settings.sync, outside_links=settings.outside_links
        )
        self._open = _Parts(
            store=store,
            sync=sync,
            vectors=EmbeddingBackfill(store, self.embedder, sync),
            recorder=Recorder(store, keeps_searches=settings.usage_log, repair=sync.repair),
        )
        try:
            if settings.deletes_usage and settings.follows_files and not store.read_only:
                with suppress(ToolIndexError):
                    await asyncio.to_thread(store.usage.clear)
            if self._follows:
                follower = Follower(self)
                self._background = asyncio.create_task(follower.run())
                await follower.wait_until_ready()
            elif self._updates and not store.read_only:
                await self._update_once()
        except BaseException:
            await self._close()
            raise

    async def _update_once(self) -> None:
        """Scan the files, and embed in the background; answers report failures too."""
        if error := (await self.update(vectors=False)).error:
            _log.warning("the index could not be brought up to date: %s", error)
        with suppress(ToolIndexError):
            await self.warn_of_idle_patterns()
        embedding = self._background = asyncio.create_task(self._embed_in_background())
        enough = asyncio.create_task(self.vectors.interim_ready.wait())
        both: set[asyncio.Task[Any]] = {embedding, enough}
        await asyncio.wait(both, timeout=_ENTERING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        enough.cancel()

    async def _embed_in_background(self) -> None:
        if error := (await self.update(files=False)).error:
            _log.warning("vectors are missing for now: %s", error)

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        store = self.store
        try:
            # The background work needs all parts until it has ended.
            if self._background is not None:
                await stop(self._background)
            await self.sync.aclose()
            await self.recorder.aclose()
        finally:
            # Only the caller may remove a store that it opened.
            is_own = self._open_store is open_store and self.settings.server is None
            is_left = not is_own or not await self._is_empty()
            store.close()
            if not is_left:
                await asyncio.to_thread(_remove_empty, Path(store.where))
            self._background = self._open = None
            self._is_entered = False

    async def _is_empty(self) -> bool:
        """Return whether the index has no tools: a misspelt root must not leave a file behind."""
        if self.store.read_only:
            return False
        with suppress(ToolIndexError):
            return (await self.read(lambda reader: reader.coverage(""))).tools == 0
        return False

    @property
    def is_open(self) -> bool:
        """Whether the index has been entered and not left."""
        return self._open is not None

    @property
    def _parts(self) -> _Parts:
        if self._open is None:
            raise RuntimeError(
                "this index is not open: use it inside `async with ToolSearch(…) as tools:`"
            )
        return self._open

    @property
    def store(self) -> ToolStore:
        """The open store."""
        return self._parts.store

    @property
    def sync(self) -> TreeSync:
        """Keeps the store up to date with the trees."""
        return self._parts.sync

    @property
    def vectors(self) -> EmbeddingBackfill:
        """Embeds the tools."""
        return self._parts.vectors

    @property
    def recorder(self) -> Recorder:
        """Records searches and outcomes."""
        return self._parts.recorder

    async def update(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        files: bool = True,
        vectors: bool = True,
        trusts_stamps: bool = True,
        patience: float | None = None,
        progress: Progress | None = None,
    ) -> UpdateResult:
        """Bring the index up to date: scan the files, then embed new texts.

        Failures are returned, not raised, because searches work nevertheless. An index that turns
        out to be damaged is renamed and rebuilt.

        Args:
            within: The paths to scan, relative to each root; None for all files.
            files: Whether to scan files.
            vectors: Whether to embed.
            trusts_stamps: Whether to skip files with unchanged size and times.
            patience: How many seconds to wait for the next vector of a slow model; None for
                no limit. With a limit, a caller is waiting for an answer: if there is a faster
                model, that one embeds everything new, and the wanted one only a few tools.
            progress: Called from any thread with the current step, how much of it is done, and the
                total if that is known.
        """
        report, files_error = None, None
        if files:
            try:
                report = await self.sync.update(
                    within, trusts_stamps=trusts_stamps, progress=progress
                )
            except RootUnreadableError as error:
                # The other roots are up to date.
                report, files_error = error.report, error
            except SYNC_ERRORS as error:
                files_error = error
        embedded, vectors_error = await self._embed(patience, progress) if vectors else (0, None)
        return UpdateResult(
            report=report, embedded=embedded, files_error=files_error, vectors_error=vectors_error
        )

    async def _embed(
        self, patience: float | None, progress: Progress | None
    ) -> tuple[int, Exception | None]:
        loop = asyncio.get_running_loop()
        embedded = 0
        limit = asyncio.timeout(patience)

        def note(done: int, total: int) -> None:
            nonlocal embedded
            embedded = done
            if progress is not None:
                progress("embedding", done, total)
            if patience is not None:
                limit.reschedule(loop.time() + patience)

        try:
            async with limit:
                return await self.vectors.embed(note, at_once=patience is not None), None
        except Exception as error:  # noqa: BLE001 - a model may fail with anything
            return embedded, None if limit.expired() else error

    async def check(self) -> Sequence[str]:
        """Check the whole index, regardless of the files.

        A damaged file is renamed, and the next update creates a new one.

        Returns:
            Its inconsistencies, as sentences; `rebuild` fixes them.

        Raises:
            DatabaseError: The index can be neither read nor written.
        """
        return await self.sync.with_repair(lambda: asyncio.to_thread(self.store.check))

    async def rebuild(self, *, forget_vectors: bool = False) -> None:
        """Rebuild the search tables; the next update reads every file again.

        Args:
            forget_vectors: Have the model embed all tools again, too. It has to return one vector
                first, and its old vectors are used until they are replaced.

        Raises:
            EmbeddingError: The model returned no vector; nothing has changed.
            DatabaseError: The index cannot be written; nothing has changed.
        """
        forget: str | None = None
        if forget_vectors and self.embedder is not None:
            dimensions = len(await self.embedder.embed_query("tool"))
            forget = self.embedder.model_id
            await asyncio.to_thread(self.store.use_model, forget, dimensions=dimensions)
        await self.sync.with_repair(lambda: asyncio.to_thread(self.store.rebuild, forget=forget))

    async def refused(self) -> dict[str, str]:
        """Return the ids of tools whose text the model has refused, with its reasons."""
        return await self.vectors.refused()

    async def coverage(self) -> Coverage:
        """Count the tools in the index, and those with a vector of the model."""
        return (await self.state()).coverage

    async def state(self) -> IndexState:
        """Return the generation and the coverage of the index, from the same moment."""
        model_id = self.embedder.model_id if self.embedder is not None else ""
        return await self.read(
            lambda reader: IndexState(
                generation=reader.generation(),
                coverage=reader.coverage(model_id),
            )
        )

    async def changed_at(self) -> float | None:
        """Return when a tool was last added, updated or removed, in seconds since 1970, or None."""
        return await self.read(lambda reader: reader.changed_at())

    async def server_unreachable(self) -> str:
        """Return the note of answers while the server of a shared index is unreachable, or "".

        It is as of the last access.
        """
        freshness = await self.freshness(asks=False)
        return "" if freshness is None else freshness.note

    async def freshness(self, *, asks: bool = True) -> Freshness | None:
        """Return how old this host's copy of a shared index is; None for a file.

        Args:
            asks: Whether to ask the server now; otherwise it is as of the last access.
        """
        store = self.store
        if not isinstance(store, SharedIndex):
            return None
        return await asyncio.to_thread(store.freshness, asks=asks)

    async def warn_of_idle_patterns(self) -> None:
        """Log each pattern that matches no tool, once until it matches one.

        Such a pattern hides and confirms nothing.
        """
        idle = await self.idle_patterns()
        for name, pattern in idle:
            if (name, pattern) not in self._warned_of:
                _log.warning(IDLE_PATTERN, name, pattern)
        self._warned_of = frozenset(idle)

    async def idle_patterns(self) -> list[tuple[str, str]]:
        """Return the patterns that match no tool, each after its setting: they may be misspelt."""
        patterns = self.settings.patterns

        def idle(reader: StoreReader) -> list[tuple[str, str]]:
            return [it for it in patterns if not reader.categories(ToolFilter(include=[it[1]]))]

        return await self.read(idle) if patterns else []

    async def flush(self) -> None:
        """Write pending records of searches now rather than a moment later."""
        if self._open is not None:
            await self.recorder.flush()

    async def statistics(self, *, since: float | None = None) -> UsageStatistics:
        """Summarize the usage record.

        Args:
            since: Leave out older records, in seconds since 1970.
        """
        return await self.read_usage(lambda store: store.usage.statistics(since=since))

    async def tidy(self) -> None:
        """Delete unneeded vectors and the oldest usage records, and copy what cannot be rebuilt.

        Raises:
            DatabaseError: The index cannot be written.
        """
        usage = self.store.usage
        if usage.read_only:
            return
        if not self.store.read_only:
            for used in filter(None, (self.vectors.interim, self.embedder)):
                await asyncio.to_thread(self.store.use_model, used.model_id)
            await asyncio.to_thread(self.store.prune)
        if self.settings.usage_log:
            await asyncio.to_thread(usage.retain, max_age_days=_USAGE_DAYS, max_rows=_USAGE_ROWS)
        elif self.settings.deletes_usage:
            await asyncio.to_thread(usage.clear)
        try:
            await self.sync.with_repair(lambda: asyncio.to_thread(self.store.back_up))
        except DatabaseError as error:
            _log.info("no copy of the usage record and the vectors was made: %s", error)

    async def read(self, query: Callable[[StoreReader], T]) -> T:
        """Read the current state of the index, in a thread."""

        def run() -> T:
            with self.store.reading() as reader:
                return query(reader)

        return await self.sync.with_repair(lambda: asyncio.to_thread(run))

    async def read_usage(self, query: Callable[[ToolStore], T]) -> T:
        """Read the usage record in a thread, together with what was recorded last."""
        await self.recorder.flush_unless_failing()
        return await self.sync.with_repair(lambda: asyncio.to_thread(query, self.store))


def _remove_empty(database: Path) -> None:
    # An index that is open elsewhere, or a file that is not an index, is kept.
    with suppress(ToolIndexError, OSError):
        ToolIndex.remove(database, only_empty=True)


def _close_late(opening: asyncio.Future[ToolStore]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _configured_roots(settings: Settings) -> Roots:
    roots, note = settings.resolved_root()
    if note:
        _log.info("%s", note)
    return roots
