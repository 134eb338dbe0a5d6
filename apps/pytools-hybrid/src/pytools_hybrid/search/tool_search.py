"""The product as one object: an up-to-date index and searches of it."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Self, cast

from toolindex import ArgumentError, SearchRecord, ToolFilter

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.index import Index, Recording, open_store
from pytools_hybrid.search.describe import DetailLevel, categories, describe, found_as
from pytools_hybrid.search.engine import ModelSelector, RankingEngine, hybrid_search, observed
from pytools_hybrid.search.explain import RankExplanation, rank_explanation
from pytools_hybrid.search.notes import broken, doubt, stale, unknown, why_empty
from pytools_hybrid.search.rerank import configured_reranking
from pytools_hybrid.search.types import (
    FoundTool,
    Scope,
    SearchMode,
    SearchRequest,
    SearchResponse,
    cut_query,
)
from pytools_hybrid.search.vectors import TuningFile
from pytools_hybrid.settings import MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from toolembed import Embedder
    from toolindex import StoreReader, ToolEntry, ToolStore
    from toolrank import HybridSearch

    from pytools_hybrid.search.describe import CategoryCount, ToolDescription
    from pytools_hybrid.search.rerank import Reranking
    from pytools_hybrid.settings import Roots, RootsLike, Settings

_log = logging.getLogger("pytools_hybrid")

_REPEAT_SECONDS = 600.0
_MAX_BROKEN = 3
# The usage record keeps only this many of a filter's tags.
_FILTER_VALUES = 20
_VALUE_CHARACTERS = 200
_DEFAULTS = [(field.name, getattr(ToolFilter(), field.name)) for field in fields(ToolFilter)]

_ANY = ToolFilter()


class ToolSearch:
    """Searches a tree of tools, or several as one.

    Use it as an async context manager, which opens its index and brings it up to date. It can be
    entered again after leaving. Other arguments, attributes and errors are those of `Index`.

    Args:
        ranking: Ranks the tools; by default what the settings describe.

    Attributes:
        index: The index, with everything that keeps it up to date.
        policy: The tools that can be found, listed and described according to the settings; it
            applies in addition to every filter.
        tuning: The tuning file, which may not exist.
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
        ranking: HybridSearch | None = None,
    ) -> None:
        self.index: Index = Index(
            root, settings, embedder=embedder, refresh=refresh, follow=follow, store=store
        )
        self.settings: Settings = self.index.settings
        fusion, rrf_k = self.settings.fusion, self.settings.rrf_k
        self._search = ranking or hybrid_search(fusion, rrf_k)
        self.roots: Roots = self.index.roots
        self.policy: ToolFilter = self.settings.policy
        self.tuning: TuningFile = TuningFile(self.settings.resolved_tuning(self.roots))
        self._reranking = configured_reranking(self.settings)
        self._follows = follow
        self._preparing: asyncio.Task[None] | None = None
        self._answers: ModelSelector | None = None

    async def __aenter__(self) -> Self:
        await self.index.__aenter__()
        if self._follows:
            self._preparing = asyncio.create_task(self.prepare_reranking())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._answers = None
        if self._preparing is not None:
            self._preparing.cancel()
        await self.index.__aexit__(*raised)

    @property
    def _answering(self) -> ModelSelector:
        store = self.index.store
        if self._answers is None:
            settings = self.settings
            engine = RankingEngine(
                store,
                bm25_weight=settings.bm25_weight,
                vec_weight=settings.vec_weight,
                search=self._search,
                tuning=self.tuning,
            )
            self._answers = ModelSelector(store, engine, self.index.recorder, self.index.embedder)
        return self._answers

    async def search(
        self,
        query: str | SearchRequest,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        where: ToolFilter | None = None,
        limit: int | None = None,
        threshold: float | None = None,
        rerank: bool | None = None,
        record: bool = True,
        top_k: int | None = None,
    ) -> SearchResponse:
        """Find the tools that fit a request, best first.

        Args:
            query: The request in plain language; any string is answered. Or the whole request,
                in which case the arguments from `mode` to `threshold` are not used.
            mode: Words and meaning together, or one of them.
            scope: Which source's tools.
            where: A filter for tools.
            limit: How many at most, 1 to `MAX_LIMIT`; None for the setting.
            threshold: The minimum confidence of a result, from 0 (for all) to 1; None for the
                setting. With `toolrank.RECOMMENDED_CONFIDENCE`, most requests that no tool answers
                find nothing.
            rerank: Whether a language model orders the first tools; None if the settings name one.
            record: Whether to add the search to the usage record. Unfinished requests, while
                somebody is typing, do not belong there.
            top_k: Another name for `limit`.

        Raises:
            ValueError: The limit or the threshold is out of range, or there is no such mode or
                scope.
            SettingsError: The settings name no model to rerank with.
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        if None not in (limit, top_k) and limit != top_k:
            raise ValueError("top_k is another name for limit, and they differ; give one of them")
        limit = top_k if limit is None else limit
        request = query
        if not isinstance(request, SearchRequest):
            request = SearchRequest(
                text=request,
                mode=mode,
                where=where or ToolFilter(),
                limit=self.settings.limit if limit is None else limit,
                min_confidence=self.settings.threshold if threshold is None else threshold,
            )
            request = search_request(self.settings, request, scope)
        reranking = self._reranking if rerank is None or rerank else None
        if rerank and reranking is None:
            raise SettingsError("PYTOOLS_RERANK_MODEL", "is needed to rerank: it names the model")
        return await observed(request.mode, self._answered(request, reranking, record=record))

    async def _answered(
        self, request: SearchRequest, reranking: Reranking | None, *, record: bool
    ) -> SearchResponse:
        started, at = time.perf_counter(), time.time()
        wide = request if reranking is None else reranking.widened(request)

        response = await self._answer(wide)
        wanted = [*response.unembedded, *(tool.id for tool in response.tools)]
        await self.index.vectors.want(wanted)
        if not response.is_complete and not (response.tools and self.index.sync.progress):
            # The index is new: its file was removed or damaged, or has not been filled yet.
            await self.index.sync.fill()
            response = await self._answer(wide)
        lacks_vectors = response.coverage.vectors < response.coverage.tools
        if (response.dimension_mismatch or lacks_vectors) and self.index.vectors.is_outdated:
            # The follower then embeds all tools again, in the new length.
            self.index.sync.changed.set()
        if reranking is not None:
            response = await reranking.rerank(request, response)
        notes = stale(self.index, response, await self.index.server_unreachable())
        early = ""
        if not response.tools:
            why = await asyncio.to_thread(
                why_empty,
                self.index,
                request,
                response,
                count=await self._findable(response),
                is_filtered=request.where != under_policy(self.policy, None),
            )
            notes = (*notes, why)
            can_grow = self.settings.sync and not self.index.store.read_only
            if not response.is_complete and can_grow and self.index.sync.failure is None:
                early = why
        notes = (*notes, *self._broken_notes(request, response, is_recorded=record))
        # The first note if another model than the configured one was used.
        first = response.notes[:1] if self._is_stood_in(response, request.mode) else ()
        others = response.notes[len(first) :]
        doubted = doubt(response, request.min_confidence)
        notes = tuple(filter(None, (doubted, unknown(response, request.where), *notes)))
        response = replace(
            response,
            tools=tuple(replace(found, roots=self.roots) for found in response.tools),
            notes=(*self._vector_notes(request.mode), *first, *notes, *others),
            search_id=uuid.uuid4().hex,
            early=early,
        )
        milliseconds = 1000 * (time.perf_counter() - started)
        if record and response.tool_count:
            # An empty index is not worth a record, which would keep its file from being removed.
            self.index.recorder.search(
                search_record(request, response, at=at, milliseconds=milliseconds)
            )
        return response

    def _broken_notes(
        self, request: SearchRequest, response: SearchResponse, *, is_recorded: bool
    ) -> tuple[str, ...]:
        """Return notes on broken files that the search misses, each at most every ten minutes."""
        now = time.monotonic()
        unreported = (
            it for it in self.index.sync.broken.values() if it.reported_at < now - _REPEAT_SECONDS
        )
        found = broken(unreported, request, response)[:_MAX_BROKEN]
        for tool in found if is_recorded else ():
            tool.reported_at = now
        return tuple(map(str, found))

    async def _answer(self, request: SearchRequest) -> SearchResponse:
        def answer() -> Coroutine[None, None, SearchResponse]:
            return self._answering.answer(request, self.index.vectors.failure)

        return await self.index.sync.with_repair(answer)

    async def terms(self, query: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Return the request's terms that some tools have, each with its part of the score."""
        return await self.index.read(lambda reader: reader.terms(cut_query(query), ids))

    async def explain_rank(self, query: str | SearchRequest, name: str) -> RankExplanation:
        """Return where a tool ranks in the answer of a search, and why it does not rank higher.

        A tool that is not among the results has its place among the hundred or more tools that the
        search compares, if it is one of these, and is compared with the last result.

        `name` and its errors are those of `find`; a query stands for a request without
        filters, with the limit and the threshold of the settings.
        """
        request = query
        if not isinstance(request, SearchRequest):
            limit, least = self.settings.limit, self.settings.threshold
            request = SearchRequest(text=request, limit=limit, min_confidence=least)
            request = search_request(self.settings, request)
        id_ = str((await self.find(name)).id)
        asked = replace(request, explain_id=id_)
        response = await self._answer(asked)
        ids = [id_, *(tool.id for tool in response.tools if tool.id != id_)]
        return rank_explanation(
            id_,
            response,
            terms=await self.terms(request.text, ids),
            passes=await self.index.read(
                lambda reader: id_ in {it.id for it in reader.named(id_, where=asked.where)}
            ),
            min_confidence=asked.min_confidence,
        )

    async def similar(self, name: str, *, limit: int = 5) -> tuple[FoundTool, ...]:
        """Return the tools most similar to a tool, best first.

        Nothing is recorded. `name` and its errors are those of `find`.
        """
        entry = await self.find(name)
        text = f"{entry.id.name.replace('_', ' ')}. {entry.summary}"
        asked = SearchRequest(text=cut_query(text), where=self.policy, limit=limit + 1)
        response = await self._answer(asked)
        others = [found for found in response.tools if found.entry.id != entry.id]
        return tuple(others[:limit])

    async def prepare_reranking(self) -> None:
        """Load the language model that the settings name, so that no search waits for that.

        If it cannot be used, the log and every answer say why.
        """
        if self._reranking is not None and (problem := await self._reranking.prepare()):
            _log.warning("results are not reranked: %s", problem)

    async def categories(self) -> tuple[CategoryCount, ...]:
        """Return the categories with tools that can be found, and counts, by source and name."""
        return await self.index.read(lambda reader: categories(reader, self.policy))

    async def entries(self, where: ToolFilter | None = None) -> tuple[ToolEntry, ...]:
        """Return the tools that can be found, and pass a filter if one is given, by id."""
        allowed = under_policy(self.policy, where)

        def listed(reader: StoreReader) -> tuple[ToolEntry, ...]:
            ids = reader.ids(allowed)
            entries = reader.entries(ids)
            return tuple(entries[id_] for id_ in ids if id_ in entries)

        return await self.index.read(listed)

    async def probe(self) -> SearchResponse:
        """Run a trial search in all channels, for the model and the notes of its answer.

        Nothing is recorded. An answer without notes means that all channels work.
        """
        asked = SearchRequest(text="tool", limit=1)
        answer = await self._answer(asked)
        return replace(answer, notes=(*self._vector_notes(asked.mode), *answer.notes))

    async def find(self, name: str) -> ToolEntry:
        """Find a tool by its id or another of its names.

        Args:
            name: Such as `mcptools:github:create_issue`, `github__create_issue`,
                `github.create_issue`, or a bare name that only one tool has.

        Raises:
            UnknownToolError: No tool has that name.
            AmbiguousToolError: Several tools have it.
        """
        return await found_as(lambda entry: entry, self.index, name, self.policy)

    async def describe(
        self, name: str, detail: DetailLevel = DetailLevel.SCHEMA
    ) -> ToolDescription:
        """Describe a tool.

        `name` and its errors are those of `find`.
        """
        entry, detail = await self.find(name), DetailLevel(detail)
        usage = None
        if detail is DetailLevel.FULL:
            usage = await self.index.read_usage(lambda store: store.usage.of_tool(str(entry.id)))
        return await asyncio.to_thread(
            describe,
            entry,
            self.roots,
            detail=detail,
            usage=usage,
            outside_links=self.settings.outside_links,
            store=self.index.store if self.settings.only_reads else None,
        )

    async def record_outcome(
        self,
        tool_id: str,
        *,
        success: bool,
        latency_ms: float | None = None,
        search_id: str | None = None,
    ) -> Recording:
        """Record the outcome of using a tool.

        Args:
            tool_id: The tool, as `find` takes it.
            success: Whether the tool worked.
            latency_ms: How long it took, if that is known.
            search_id: The search that found it, if that is known.

        Returns:
            Whether it was recorded, will be, or is not kept at all.

        Raises:
            ArgumentError: A latency that is negative or not finite.
            UnknownToolError: No tool has that name.
            AmbiguousToolError: Several tools have it.
        """
        entry = await self.find(tool_id)
        noted = self.index.recorder.outcome(
            str(entry.id), success=success, latency_ms=latency_ms, search_id=search_id
        )
        if noted is not Recording.PENDING:
            return noted
        return Recording.WRITTEN if await self.index.recorder.flush() else Recording.PENDING

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Return whether a search in this mode uses the vector channel."""
        return self._answering.engine.uses_vectors(SearchMode(mode))

    def _vector_notes(self, mode: SearchMode) -> tuple[str, ...]:
        if self.index.embedder is None or not self.uses_vectors(mode):
            return ()
        return tuple(self.index.store.vector_notes())

    async def _findable(self, response: SearchResponse) -> int:
        if self.policy == ToolFilter():
            return response.tool_count
        return sum(category.tools for category in await self.categories())

    def _is_stood_in(self, response: SearchResponse, mode: SearchMode) -> bool:
        """Return whether the configured model should have been used but was not."""
        embedder = self.index.embedder
        return (
            embedder is not None and self.uses_vectors(mode) and response.model != embedder.model_id
        )


def search_request(
    settings: Settings, asked: SearchRequest, scope: Scope = Scope.ALL
) -> SearchRequest:
    """Return a request in a scope, restricted by the policy of the settings.

    Raises:
        ValueError: A value is out of range or of another type, which not all callers check.
        ArgumentError: The filter and the policy both have patterns to include.
    """
    _check(asked.text, asked.limit, asked.min_confidence)
    where = under_policy(settings.policy, asked.where)
    if Scope(scope) is not Scope.ALL:
        where = replace(where, source=Scope(scope).value)
    return replace(asked, text=cut_query(asked.text), mode=SearchMode(asked.mode), where=where)


def _check(query: object, limit: object, threshold: object) -> None:
    if not isinstance(query, str):
        raise ValueError(f"the query must be text, got {query!r}")
    if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit must be a whole number from 1 to {MAX_LIMIT}, got {limit!r}")
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be a number from 0 to 1, got {threshold!r}")


def under_policy(policy: ToolFilter, where: ToolFilter | None) -> ToolFilter:
    """Combine `Settings.policy` with a caller's filter: tools have to pass both.

    Raises:
        ArgumentError: Both have patterns to include.
    """
    if where is None or where == _ANY:
        return policy
    if where.include and policy.include:
        raise ArgumentError("include", "is already set; only exclude can be given")
    return replace(
        where,
        include=where.include or policy.include,
        exclude={*where.exclude, *policy.exclude},
    )


def search_record(
    request: SearchRequest, response: SearchResponse, *, at: float, milliseconds: float
) -> SearchRecord:
    """Make the record of a search."""
    where = {
        name: [
            each[:_VALUE_CHARACTERS]
            for each in sorted(cast("frozenset[str]", value))[:_FILTER_VALUES]
        ]
        if isinstance(value, frozenset)
        else value
        for name, default in _DEFAULTS
        if (value := getattr(request.where, name)) != default
    }
    return SearchRecord(
        id=response.search_id,
        at=at,
        query=request.text,
        mode=request.mode.value,
        parameters={"limit": request.limit, **where},
        results=tuple(str(found.entry.id) for found in response.tools),
        latency_ms=milliseconds,
        degraded=response.lost,
    )
