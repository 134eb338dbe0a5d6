"""The product as one object: a store kept in step with trees of tools, and searches of it."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeVar

from toolindex import (
    FilterError,
    OutcomeRecord,
    ToolFilter,
    ToolIndexError,
)

from pytools_hybrid.answering import Answering
from pytools_hybrid.catalogue import categories, find_tool
from pytools_hybrid.catching_up import catch_up, stop
from pytools_hybrid.description import DetailLevel, describe
from pytools_hybrid.embedding import create_embedder
from pytools_hybrid.errors import SettingsError, UnknownToolError
from pytools_hybrid.keys import without_keys
from pytools_hybrid.placement import PLACES, Placement, placed
from pytools_hybrid.ranking import Searcher
from pytools_hybrid.recorder import Recorder, Recording, search_record
from pytools_hybrid.reranking import Reranking
from pytools_hybrid.roots import Roots
from pytools_hybrid.search import (
    MAX_LIMIT,
    FoundTool,
    Scope,
    SearchMode,
    SearchRequest,
    SearchResponse,
    cut_query,
    why_empty,
)
from pytools_hybrid.settings import Settings
from pytools_hybrid.state import IndexState
from pytools_hybrid.store import open_store
from pytools_hybrid.syncing import TreeSync
from pytools_hybrid.vectors import VectorWork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from pathlib import PurePosixPath
    from types import TracebackType

    from toolindex import Coverage, StoreReader, SyncReport, ToolEntry, UsageStatistics

    from pytools_hybrid.catalogue import CategoryCount
    from pytools_hybrid.description import ToolDescription
    from pytools_hybrid.embedding import LimitedEmbedder
    from pytools_hybrid.roots import RootsLike
    from pytools_hybrid.store import SQLiteStore

__all__ = ["ToolSearch"]

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

_USAGE_DAYS = 90.0
_USAGE_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """What there is between entering a search and leaving it."""

    index: SQLiteStore
    sync: TreeSync
    vectors: VectorWork
    recorder: Recorder
    answering: Answering


class ToolSearch:
    """Searches a tree of tools, or several as one.

    Use it as an async context manager, which brings the index up to date on entering; after that,
    `refresh` and `embed_pending` do so, or `follow`. It can be entered again when it was left.

    Args:
        root: The tree of tools, which may appear later; or several, of which the first that has
            a tool counts. None for the one that the settings name, or the command would take.
        settings: The settings; None reads them as the command does.
        embedder: The model, in place of that of the settings.
        refresh: Whether entering brings the index up to date, as far as the settings do not say
            that others do; what fails then is told with the answers.
        follow: Whether the index follows the files from then on, for programs that run long.

    Attributes:
        settings: The settings.
        roots: The trees.
        policy: The tools that may be found, listed and described, by the settings' patterns; it
            is laid over every filter.

    Raises:
        SettingsError: A setting cannot work, or nothing says where the tools are.
        DatabaseError: (on entering) The index can be neither written nor read.
    """

    def __init__(
        self,
        root: RootsLike | None = None,
        settings: Settings | None = None,
        *,
        embedder: LimitedEmbedder | None = None,
        refresh: bool = True,
        follow: bool = False,
    ) -> None:
        self.settings = settings = Settings.from_flags({}) if settings is None else settings
        self.roots = _roots(settings) if root is None else Roots.of(root)
        self.policy = ToolFilter(include=settings.include, exclude=settings.exclude)
        self._database = settings.resolved_database(self.roots)
        self._embedder = embedder or create_embedder(
            settings.embedding_model,
            dimensions=settings.embedding_dim,
            requests_per_minute=settings.embedding_requests_per_minute,
            device=settings.device,
        )
        model = settings.rerank_model
        self._reranking = None if model is None else Reranking(model)
        self._refreshes = refresh and settings.sync
        self._follows = follow
        self._upkeep: asyncio.Task[None] | None = None
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
        )
        sync = TreeSync(
            index, self.roots, completes=settings.sync, outside_links=settings.outside_links
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
            if not settings.usage_log and settings.follows_files and not index.read_only:
                with suppress(ToolIndexError):
                    await asyncio.to_thread(index.usage.clear)
            await self._start()
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
        opening = loop.run_in_executor(None, open_store, self._database, self.roots)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on, and may take long: another process may be making the index.
            opening.add_done_callback(_close_late)
            raise

    async def _start(self) -> None:
        if self._follows:
            # It stands above this module, which only programs that run long need.
            from pytools_hybrid.upkeep import Upkeep

            upkeep = Upkeep(self)
            self._upkeep = asyncio.create_task(upkeep.run())
            await upkeep.ready()
        elif self._refreshes and not self.index.read_only:
            self._upkeep = await catch_up(self.sync, self._parts.vectors)

    async def _close(self) -> None:
        parts, self._open = self._parts, None
        try:
            if self._upkeep is not None:
                await stop(self._upkeep)
                self._upkeep = None
            await parts.sync.aclose()
            await parts.recorder.aclose()
        finally:
            parts.index.close()
            self._is_entered = False

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
            forget_vectors: Have the model embed all tools again, too.

        Raises:
            DatabaseError: The index cannot be written.
        """
        await self.sync.mending(
            lambda: asyncio.to_thread(self.index.rebuild, forget_vectors=forget_vectors)
        )

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

    async def refused(self) -> dict[str, str]:
        """Give the tools whose text the model has refused, by id, with its reasons.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return await self._vectors.refused()

    async def search(
        self,
        query: str,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        where: ToolFilter | None = None,
        limit: int | None = None,
        min_confidence: float | None = None,
        rerank: bool | None = None,
    ) -> SearchResponse:
        """Find the tools that fit a request, best first.

        Args:
            query: The request in plain language; any string is answered.
            mode: Words and meaning together, or one of them.
            scope: Whose tools.
            where: Which tools, besides.
            limit: How many at most, 1 to `MAX_LIMIT`; None for what the settings say.
            min_confidence: Leave tools out that are less sure to answer the request, from 0 for
                all to 1; `toolrank.RECOMMENDED_CONFIDENCE` finds nothing for most requests that
                no tool answers. None for what the settings say.
            rerank: Whether a language model puts the first tools in order; None for whether
                the settings name one.

        Raises:
            ValueError: The limit or the confidence is out of range.
            SettingsError: The settings name no model to rerank with.
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        limit = self.settings.limit if limit is None else limit
        min_confidence = self.settings.threshold if min_confidence is None else min_confidence
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit must be between 1 and {MAX_LIMIT}, got {limit}")
        if not 0 <= min_confidence <= 1:
            raise ValueError(f"min_confidence must be between 0 and 1, got {min_confidence}")
        reranking = self._reranking if rerank is None or rerank else None
        if rerank and reranking is None:
            raise SettingsError("--rerank / PYTOOLS_RERANK_MODEL", "names no model to rerank with")
        started, at = time.perf_counter(), time.time()
        request = self._request(
            query, mode, scope, where, limit=limit, min_confidence=min_confidence
        )
        notes = self._stale_notes()
        wide = request if reranking is None else reranking.widened(request)

        def answer() -> Coroutine[None, None, SearchResponse]:
            return self._answering.answer(wide, self._vectors.failure)

        response = await self.sync.mending(answer)
        if not response.is_complete:
            # It is new: the file was removed or damaged, or has not been filled yet.
            await self.sync.complete()
            response = await answer()
        if reranking is not None:
            response = _without_keys(await reranking.rerank(request, response))
        if not response.tools:
            why = why_empty(
                request,
                response,
                root=self.roots,
                count=await self._findable(response),
                syncs=self.settings.sync,
                fails=self.sync.failure is not None,
                is_filtered=request.where != self._under_policy(None),
            )
            notes = (*notes, why)
        response = replace(
            response,
            tools=tuple(self._located(found) for found in response.tools),
            notes=(*notes, *response.notes),
            search_id=uuid.uuid4().hex,
        )
        milliseconds = 1000 * (time.perf_counter() - started)
        self._recorder.search(search_record(request, response, at=at, milliseconds=milliseconds))
        return response

    async def terms(self, query: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Give the terms of a request that some tools have, with what each adds to their scores.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return await self._look(lambda reader: reader.terms(cut_query(query), ids))

    async def place(
        self,
        query: str,
        name: str,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        where: ToolFilter | None = None,
        limit: int | None = None,
        min_confidence: float | None = None,
    ) -> Placement:
        """Say where a tool stands for a request, and why it does not stand higher.

        Args:
            query: The request.
            name: The tool, as `find` takes it.
            mode: As for `search`.
            scope: As for `search`.
            where: As for `search`.
            limit: How many tools were asked for: one that is not among them is compared with the
                last one that is.
            min_confidence: As for `search`.

        Raises:
            UnknownToolError: No tool is called that.
            AmbiguousToolError: Several are.
            DatabaseError: The index cannot be read.
        """
        id_ = str((await self.find(name)).id)
        asked = self._request(query, mode, scope, where, limit=PLACES, min_confidence=0.0)

        def answer() -> Coroutine[None, None, SearchResponse]:
            return self._answering.answer(asked, self._vectors.failure)

        response = await self.sync.mending(answer)
        ids = [str(found.entry.id) for found in response.tools]
        return placed(
            id_,
            response.tools,
            shown=self.settings.limit if limit is None else limit,
            terms=await self.terms(query, list({id_, *ids})),
            searched=response.channels,
            passes=await self._look(
                lambda reader: id_ in {it.id for it in reader.named(id_, where=asked.where)}
            ),
            min_confidence=(self.settings.threshold if min_confidence is None else min_confidence),
        )

    async def prepare_reranking(self) -> None:
        """Load the language model that the settings name, so that no search waits for that.

        One that cannot be used is told in the log, and with every answer.
        """
        if self._reranking is not None and (problem := await self._reranking.prepare()):
            _log.warning("results are not reranked: %s", without_keys(problem))

    async def categories(self) -> tuple[CategoryCount, ...]:
        """Give the categories that have tools to find, by source and name, with their counts.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return await self._look(lambda reader: categories(reader, self.policy))

    async def entries(self, where: ToolFilter | None = None) -> tuple[ToolEntry, ...]:
        """Give the tools that can be found, by id.

        Args:
            where: Which of them; None for all.

        Raises:
            DatabaseError: The index cannot be read.
        """
        allowed = self._under_policy(where)

        def listed(reader: StoreReader) -> tuple[ToolEntry, ...]:
            ids = reader.ids(allowed)
            entries = reader.entries(ids)
            return tuple(entries[id_] for id_ in ids if id_ in entries)

        return await self._look(listed)

    async def channel_notes(self) -> tuple[str, ...]:
        """Ask each channel once, and give what a search would have to tell of them.

        Nothing is recorded. An empty answer means that all channels are whole.

        Raises:
            DatabaseError: The index cannot be read.
        """
        asked = SearchRequest(text="tool", limit=1)
        return (await self._answering.answer(asked, self._vectors.failure)).notes

    async def idle_patterns(self) -> tuple[str, ...]:
        """Give the patterns of the policy that match no tool: they may be misspelt.

        Raises:
            DatabaseError: The index cannot be read.
        """
        patterns = (*self.settings.include, *self.settings.exclude)

        def idle(reader: StoreReader) -> tuple[str, ...]:
            return tuple(it for it in patterns if not reader.categories(ToolFilter(include=[it])))

        return await self._look(idle) if patterns else ()

    async def find(self, name: str) -> ToolEntry:
        """Find the tool that somebody means by an id, of ours or in another system's spelling.

        Args:
            name: As `mcptools:github:create_issue`, `github__create_issue`,
                `github.create_issue`, or a bare name that only one tool has.

        Raises:
            UnknownToolError: No tool is called that.
            AmbiguousToolError: Several are.
            DatabaseError: The index cannot be read.
        """
        try:
            return await self._look(lambda reader: find_tool(reader, name, self.policy))
        except UnknownToolError as error:
            if self.sync.is_first_look:
                raise UnknownToolError(name, error.candidates, is_early=True) from None
            raise

    async def describe(
        self, name: str, detail: DetailLevel = DetailLevel.SCHEMA
    ) -> ToolDescription:
        """Describe a tool.

        Args:
            name: What `find` takes.
            detail: How much to tell.

        Raises:
            UnknownToolError: No tool is called that.
            AmbiguousToolError: Several are.
            DatabaseError: The index cannot be read.
        """
        entry, detail = await self.find(name), DetailLevel(detail)
        usage = None
        if detail is DetailLevel.FULL:
            await self._recorder.flush_unless_failing()
            usage = await self.sync.mending(
                lambda: asyncio.to_thread(self.index.usage.of_tool, str(entry.id))
            )
        return await asyncio.to_thread(
            describe,
            entry,
            self.roots,
            detail=detail,
            usage=usage,
            outside_links=self.settings.outside_links,
        )

    async def coverage(self) -> Coverage:
        """Count the tools in the index, and those that the model has given vectors.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return (await self.state()).coverage

    async def state(self) -> IndexState:
        """Give the generation and the coverage of the index, both of one moment.

        Raises:
            DatabaseError: The index cannot be read.
        """
        model_id = self._embedder.model_id if self._embedder is not None else ""
        return await self._look(
            lambda reader: IndexState(
                generation=reader.generation(),
                changed_at=reader.changed_at(),
                coverage=reader.coverage(model_id),
            )
        )

    async def record_outcome(
        self,
        tool_id: str,
        *,
        success: bool,
        latency_ms: float | None = None,
        search_id: str | None = None,
    ) -> Recording:
        """Write down what came of using a tool.

        Args:
            tool_id: The tool, as `find` takes it.
            success: Whether it did what it was called for.
            latency_ms: How long it took, if that is known.
            search_id: The search that it was taken from, if that is known.

        Returns:
            Whether it is written now, will be, or is not kept at all.

        Raises:
            UsageError: A latency that is negative or not finite.
            UnknownToolError: No tool is called that.
            AmbiguousToolError: Several are.
        """
        entry = await self.find(tool_id)
        outcome = OutcomeRecord(
            at=time.time(),
            tool_id=str(entry.id),
            success=success,
            latency_ms=latency_ms,
            search_id=search_id,
        )
        if not self.settings.usage_log:
            return Recording.OFF
        if self.index.read_only:
            return Recording.READ_ONLY
        self._recorder.outcome(outcome)
        return Recording.WRITTEN if await self._recorder.flush() else Recording.PENDING

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
        else:
            await asyncio.to_thread(usage.clear)

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Tell whether a search of this mode asks the vector channel."""
        return self._answering.uses_vectors(mode)

    async def _look(self, at: Callable[[StoreReader], T]) -> T:
        """Look at the state that the index has now, in a thread."""

        def look() -> T:
            with self.index.reading() as reader:
                return at(reader)

        return await self.sync.mending(lambda: asyncio.to_thread(look))

    async def _findable(self, response: SearchResponse) -> int:
        if self.policy == ToolFilter():
            return response.tool_count
        return sum(category.tools for category in await self.categories())

    def _request(
        self,
        query: str,
        mode: SearchMode,
        scope: Scope,
        where: ToolFilter | None,
        *,
        limit: int,
        min_confidence: float,
    ) -> SearchRequest:
        where = self._under_policy(where)
        if Scope(scope) is not Scope.ALL:
            where = replace(where, source=Scope(scope).value)
        return SearchRequest(
            text=cut_query(query),
            mode=SearchMode(mode),
            where=where,
            limit=limit,
            min_confidence=min_confidence,
        )

    def _located(self, found: FoundTool) -> FoundTool:
        root, relative = self.roots.locate(found.entry.path)
        return replace(found, root=root, path=root / relative)

    def _under_policy(self, where: ToolFilter | None) -> ToolFilter:
        where, policy = where or ToolFilter(), self.policy
        if where.include and policy.include:
            raise FilterError("include", "is in the settings already; only exclude can be given")
        return replace(
            where,
            include=where.include or policy.include,
            exclude={*where.exclude, *policy.exclude},
        )

    def _stale_notes(self) -> tuple[str, ...]:
        if self.sync.failure is not None:
            return (f"the index may be out of date ({self.sync.failure})",)
        if self.index.read_only:
            return ("the index may be out of date: it cannot be written",)
        if self.sync.is_first_look:
            return ("the index may be out of date: the files are still being looked at",)
        return ()


def _without_keys(response: SearchResponse) -> SearchResponse:
    """Hide the keys that a provider may have repeated, in words that toolrank passes on."""
    report = response.rerank
    return replace(
        response,
        notes=tuple(map(without_keys, response.notes)),
        rerank=report and replace(report, reason=without_keys(report.reason)),
    )


def _close_late(opening: asyncio.Future[SQLiteStore]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _roots(settings: Settings) -> Roots:
    roots, note = settings.resolved_root()
    if note:
        _log.info("%s", note)
    return roots
