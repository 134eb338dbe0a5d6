"""What an open index does: it is brought up to date, checked, read and tidied."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from toolindex import DatabaseError, ToolFilter

from pytools_hybrid.index._catch_up import CatchUp, IndexState, catch_up
from pytools_hybrid.index._shared import SharedIndex
from pytools_hybrid.settings import IDLE_PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import PurePosixPath

    from toolembed import Embedder
    from toolindex import Coverage, StoreReader, SyncReport, ToolStore, UsageStatistics
    from toolindex_postgres import Freshness
    from toolscan import ToolRecord

    from pytools_hybrid.index._embed import VectorWork
    from pytools_hybrid.index._sync import TreeSync
    from pytools_hybrid.index._usage import Recorder
    from pytools_hybrid.settings import Roots, Settings

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

_USAGE_DAYS = 90.0
_USAGE_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of an index that exist while it is open."""

    store: ToolStore
    sync: TreeSync
    vectors: VectorWork
    recorder: Recorder


class OpenIndex:
    """An index, without the opening and closing of `Index`.

    Attributes:
        settings: The settings.
        roots: The trees.
        embedder: The model, or None for search by words alone.
    """

    def __init__(self, roots: Roots, settings: Settings, embedder: Embedder | None) -> None:
        self.settings: Settings = settings
        self.roots: Roots = roots
        self.embedder: Embedder | None = embedder
        self._open: Parts | None = None
        self._warned_of: frozenset[tuple[str, str]] = frozenset()

    @property
    def _parts(self) -> Parts:
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
            DatabaseBusyError: Another process has been refreshing the index for half a minute.
            DatabaseError: The index cannot be written.
            RootUnreadableError: A root cannot be listed; the others are up to date.
            RootEmptiedError: A tree that hosts share would lose all its tools; it is unchanged.
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
            patience: How many seconds to wait for the next vector of a slow model; None for
                no limit. With a limit, a caller is waiting for an answer: if there is a faster
                model, that one embeds everything new, and the wanted one only a few tools.
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
        """Return when a tool was last added, updated or removed, in seconds since 1970, or None."""
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

    async def server_unreachable(self) -> str:
        """Return the note of answers while the server of a shared index is unreachable, or "".

        It is as of the last access.
        """
        store = self.store
        if not isinstance(store, SharedIndex):
            return ""
        return (await asyncio.to_thread(store.freshness, asks=False)).note

    async def freshness(self) -> Freshness | None:
        """Ask the server of a shared index how old this host's copy is; None for a file."""
        store = self.store
        return await asyncio.to_thread(store.freshness) if isinstance(store, SharedIndex) else None

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
        """Return the patterns in the settings that match no tool: they may be misspelt."""
        return tuple(pattern for _, pattern in await self._idle_patterns())

    async def warn_of_idle_patterns(self) -> None:
        """Log each pattern that matches no tool, once until it matches one.

        Such a pattern hides and confirms nothing.
        """
        idle = await self._idle_patterns()
        for name, pattern in idle:
            if (name, pattern) not in self._warned_of:
                _log.warning(IDLE_PATTERN, name, pattern)
        self._warned_of = frozenset(idle)

    async def _idle_patterns(self) -> tuple[tuple[str, str], ...]:
        patterns = self.settings.patterns

        def idle(reader: StoreReader) -> tuple[tuple[str, str], ...]:
            return tuple(
                (name, it)
                for name, it in patterns
                if not reader.categories(ToolFilter(include=[it]))
            )

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
        return await self.recorded(lambda store: store.usage.statistics(since=since))

    async def recorded(self, read: Callable[[ToolStore], T]) -> T:
        """Read the usage record in a thread, together with what was noted last."""
        await self.recorder.flush_unless_failing()
        return await self.sync.with_repair(lambda: asyncio.to_thread(read, self.store))

    async def tidy(self) -> None:
        """Delete unneeded vectors and the oldest usage records, and copy what cannot be rebuilt.

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
        try:
            await self.sync.with_repair(lambda: asyncio.to_thread(self.store.back_up))
        except DatabaseError as error:
            _log.info("no copy of the usage record and the vectors was made: %s", error)

    async def look(self, at: Callable[[StoreReader], T]) -> T:
        """Read the current state of the index, in a thread."""

        def look() -> T:
            with self.store.reading() as reader:
                return at(reader)

        return await self.sync.with_repair(lambda: asyncio.to_thread(look))
