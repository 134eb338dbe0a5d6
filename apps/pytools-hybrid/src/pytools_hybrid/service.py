"""The product as one object: a store kept in step with a tree of tools, and searches of it."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from toolindex import (
    FilterError,
    OutcomeRecord,
    ToolFilter,
    ToolIndexError,
)

from pytools_hybrid.answering import Answering
from pytools_hybrid.catalogue import categories, find_tool
from pytools_hybrid.description import DetailLevel, describe
from pytools_hybrid.embedding import create_embedder
from pytools_hybrid.errors import SettingsError, UnknownToolError
from pytools_hybrid.ranking import Searcher
from pytools_hybrid.recorder import Recorder, Recording, search_record
from pytools_hybrid.reranking import Reranking
from pytools_hybrid.search import (
    MAX_LIMIT,
    Scope,
    SearchMode,
    SearchRequest,
    SearchResponse,
    cut_query,
    why_empty,
)
from pytools_hybrid.store import open_store
from pytools_hybrid.syncing import TreeSync
from pytools_hybrid.vectors import VectorWork

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Iterable
    from pathlib import PurePosixPath
    from types import TracebackType

    from toolindex import Coverage, StoreReader, SyncReport, ToolEntry, UsageStatistics

    from pytools_hybrid.catalogue import CategoryCount
    from pytools_hybrid.description import ToolDescription
    from pytools_hybrid.embedding import LimitedEmbedder
    from pytools_hybrid.settings import Settings
    from pytools_hybrid.store import SQLiteStore

__all__ = ["ToolSearch"]

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

_USAGE_DAYS = 90.0
_USAGE_ROWS = 100_000


class ToolSearch:
    """Searches one tree of tools.

    Use it as an async context manager. `refresh` and `embed_pending` bring the index up to
    date; `Upkeep` does so again and again as files change.

    Args:
        root: The tree of tools; it may appear later.
        settings: The settings.
        embedder: The model, in place of that of the settings.

    Attributes:
        settings: The settings.
        root: The tree.
        policy: The tools that may be found, listed and described, by the settings' patterns; it
            is laid over every filter.
        sync: What keeps the index equal to the tree.

    Raises:
        DatabaseError: (on entering) The index can be neither written nor read.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        settings: Settings,
        *,
        embedder: LimitedEmbedder | None = None,
    ) -> None:
        self.settings = settings
        self.root = Path(root)
        self.policy = ToolFilter(include=settings.include, exclude=settings.exclude)
        self._database = settings.resolved_database(self.root)
        self._embedder = embedder or create_embedder(
            settings.embedding_model,
            dimensions=settings.embedding_dim,
            requests_per_minute=settings.embedding_requests_per_minute,
        )
        model = settings.rerank_model
        self._reranking = None if model is None else Reranking(model)
        self._index: SQLiteStore | None = None

    async def __aenter__(self) -> Self:
        index = self._index = await asyncio.to_thread(open_store, self._database, self.root)
        settings = self.settings
        searcher = Searcher(
            index,
            bm25_weight=settings.bm25_weight,
            vec_weight=settings.vec_weight,
            fusion=settings.fusion,
        )
        self.sync = TreeSync(
            index, self.root, completes=settings.sync, outside_links=settings.outside_links
        )
        self._vectors = VectorWork(index, self._embedder, self.sync)
        self._recorder = Recorder(index, keeps_searches=settings.usage_log, mend=self.sync.mend)
        self._answering = Answering(index, searcher, self._recorder, self._embedder)
        if not settings.usage_log and settings.follows_files and not index.read_only:
            with suppress(ToolIndexError):
                await asyncio.to_thread(index.usage.clear)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.sync.aclose()
            await self._recorder.aclose()
        finally:
            self.index.close()

    @property
    def index(self) -> SQLiteStore:
        """The open index."""
        if self._index is None:
            raise RuntimeError("ToolSearch is used outside its async with block")
        return self._index

    async def refresh(self, within: Iterable[PurePosixPath] | None = None) -> SyncReport:
        """Make the index equal to the files: all, or those at some paths.

        An index that turns out to be damaged is set aside and made anew.

        Raises:
            LeaseHeldError: Another process has been at it for half a minute.
            DatabaseError: The index cannot be written.
            RootUnreadableError: The tree cannot be listed.
        """
        return await self.sync.refresh(within)

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
        limit: int = 5,
        min_confidence: float = 0.0,
        rerank: bool | None = None,
    ) -> SearchResponse:
        """Find the tools that fit a request, best first.

        Args:
            query: The request in plain language; any string is answered.
            mode: Words and meaning together, or one of them.
            scope: Whose tools.
            where: Which tools, besides.
            limit: How many at most, 1 to `MAX_LIMIT`.
            min_confidence: Leave tools out that are less sure to answer the request, from 0 for
                all to 1; `toolrank.RECOMMENDED_CONFIDENCE` finds nothing for most requests that
                no tool answers.
            rerank: Whether a language model puts the first tools in order; None for whether
                the settings name one.

        Raises:
            ValueError: The limit or the confidence is out of range.
            SettingsError: The settings name no model to rerank with.
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit must be between 1 and {MAX_LIMIT}, got {limit}")
        if not 0 <= min_confidence <= 1:
            raise ValueError(f"min_confidence must be between 0 and 1, got {min_confidence}")
        reranking = self._reranking if rerank is None or rerank else None
        if rerank and reranking is None:
            raise SettingsError("--rerank / PYTOOLS_RERANK_MODEL", "names no model to rerank with")
        started, at = time.perf_counter(), time.time()
        mode, scope, where = SearchMode(mode), Scope(scope), self._under_policy(where)
        if scope is not Scope.ALL:
            where = replace(where, source=scope.value)
        request = SearchRequest(
            text=cut_query(query),
            mode=mode,
            where=where,
            limit=limit,
            min_confidence=min_confidence,
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
            response = await reranking.rerank(request, response)
        if not response.tools:
            why = why_empty(
                request,
                response,
                root=self.root,
                count=await self._findable(response),
                syncs=self.settings.sync,
                is_filtered=request.where != self._under_policy(None),
            )
            notes = (*notes, why)
        response = replace(response, notes=(*notes, *response.notes), search_id=uuid.uuid4().hex)
        milliseconds = 1000 * (time.perf_counter() - started)
        self._recorder.search(search_record(request, response, at=at, milliseconds=milliseconds))
        return response

    async def prepare_reranking(self) -> None:
        """Load the language model that the settings name, so that no search waits for that.

        One that cannot be used is told in the log, and with every answer.
        """
        if self._reranking is not None and (problem := await self._reranking.prepare()):
            _log.warning("results are not reranked: %s", problem)

    async def categories(self) -> tuple[CategoryCount, ...]:
        """Give the categories that have tools to find, by source and name, with their counts.

        Raises:
            DatabaseError: The index cannot be read.
        """
        return await self._look(lambda reader: categories(reader, self.policy))

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
            self.root,
            detail=detail,
            usage=usage,
            outside_links=self.settings.outside_links,
        )

    async def coverage(self) -> Coverage:
        """Count the tools in the index, and those that the model has given vectors.

        Raises:
            DatabaseError: The index cannot be read.
        """
        model_id = self._embedder.model_id if self._embedder is not None else ""
        return await self._look(lambda reader: reader.coverage(model_id))

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
        if self._index is not None:
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
