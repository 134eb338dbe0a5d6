"""Answering a query from one state of the store: candidates, fusion, details, failed channels."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolembed import EmbeddingError, StaticEmbedder
from toolindex import ToolFilter
from toolrank import Calibration, HybridSearch, Query, reciprocal_rank_fusion
from toolscan import ToolId

from pytools_hybrid.index import interim_embedder
from pytools_hybrid.search.channels import (
    InMemoryEmbeddings,
    SearchContext,
    StoreCandidates,
    channel_weights,
    query_of,
    unembedded,
)
from pytools_hybrid.search.deprecation import deprecation, replacements, with_notice
from pytools_hybrid.search.types import (
    FoundTool,
    MatchType,
    SearchMode,
    SearchRequest,
    SearchResponse,
)
from pytools_hybrid.search.vectors import QueryEmbedder, QueryEncoder, QueryVector, TuningFile
from pytools_hybrid.telemetry import SEARCHES, lost_channels, observe, request_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping

    from toolembed import Embedder
    from toolindex import Coverage, StoreReader, ToolOutcomes, ToolStore
    from toolrank import RankExplanation as Rank
    from toolrank import SearchResult

    from pytools_hybrid.index import Recorder
    from pytools_hybrid.search.vectors import Encode

_AT_ONCE = 2
# A model with vectors of fewer tools finds less than the offline one (benchmarks/RESULTS.md).
_ENOUGH = 0.9

_CACHED_RESULTS = 512
# In capitals it is not corrected to a similar word.
_DEPRECATED = "DEPRECATED"
_MOST_DEPRECATED = 1_000
_CALIBRATION = Calibration()
_ACCURATE = Calibration.accurate()


class RankingEngine:
    """Ranks tools of a store for requests, remembering answers until the store changes.

    Args:
        store: What to search.
        bm25_weight: The weight of words in hybrid mode.
        vec_weight: The weight of meaning in hybrid mode.
        search: Ranks the tools.
        tuning: What was learned from the user's own requests.
    """

    def __init__(
        self,
        store: ToolStore,
        *,
        bm25_weight: float,
        vec_weight: float,
        search: HybridSearch,
        tuning: TuningFile | None = None,
    ) -> None:
        self._store = store
        self._bm25_weight = bm25_weight
        self._vec_weight = vec_weight
        self._search = search
        self._tuning = tuning or TuningFile(None)
        # An answer depends on its key alone, so it does not expire.
        self._answers: OrderedDict[object, _Ranked] = OrderedDict()
        self._in_memory = InMemoryEmbeddings()
        self._used: tuple[Hashable, _Usage] = None, _Usage({}, {})
        self._deprecated: tuple[Hashable, _Deprecated] = None, _Deprecated({}, {})
        self._lock = Lock()

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Return whether a search in this mode uses the vector channel."""
        return mode is SearchMode.VECTOR or (mode is SearchMode.HYBRID and self._vec_weight > 0)

    def answer(
        self,
        request: SearchRequest,
        *,
        model_id: str | None,
        query: QueryVector | QueryEncoder | None,
        why: str,
    ) -> SearchResponse:
        """Answer a request from the current state of the store.

        Args:
            request: The request.
            model_id: The model whose vectors are wanted, or None.
            query: The query's vector, of that model or of one that stands in for it; or an encoder
                that makes it from the request, spelled as in the tools. The encoder also embeds,
                for this answer, tools that fit the request and have no vector yet.
            why: Why there is no vector, or one of another model; empty if that need not be
                reported.

        Raises:
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        lost: list[str] = []
        notes: list[str] = []
        vector_problem, dimension_mismatch = why, False
        with self._store.reading() as reader:
            wanted = model_id if self.uses_vectors(request.mode) else None
            vector: QueryVector | None = None
            encode: Encode | None = None
            if isinstance(query, QueryEncoder):
                try:
                    text = spelled(reader, request.text, query.knows)
                    vector, encode = query.vector(text), query.documents
                except EmbeddingError as error:
                    vector_problem = why = str(error)
            else:
                vector = query
            length = None if vector is None else len(vector.values)
            coverage = reader.coverage(
                vector.model_id if vector else model_id or "", dimensions=length
            )
            if coverage.tools and vector is not None:
                before = reader.coverage(vector.model_id)
                dimension_mismatch = coverage.vectors == 0 and before.vectors > 0
                missing = _unsearchable(coverage.vectors, before, vector)
                if missing and (encode is None or dimension_mismatch):
                    vector, vector_problem = None, why or missing
                elif vector.model_id != wanted:
                    lost.append(f"searched with vectors of {vector.model_id} ({why})")
                elif coverage.vectors < coverage.tools:
                    reason = f" ({why})" if why else ""
                    vector_problem = (
                        f"{coverage.vectors} of {coverage.tools} tools have vectors so far{reason}"
                    )
                    notes.append(vector_problem)
            if vector is not None:
                vector, ignored = vector.with_usable_subqueries().tuned(self._tuning)
                notes += [ignored] * bool(ignored)
                if any(values is None for _, values in vector.subqueries):
                    notes.append("One part of the query was searched by keywords only.")
            if coverage.tools and vector is None and vector_problem:
                lost.append(f"Vector search unavailable ({vector_problem}); keyword search only.")
            context = SearchContext(request, vector, wanted, coverage, encode)
            key, ranked = self._ranked(reader, context)
            response = SearchResponse(
                tools=ranked.tools,
                placing=ranked.placing,
                unembedded=ranked.unembedded,
                generation=reader.generation(),
                coverage=coverage,
                channels=tuple(self._weights(request.mode, has_vector=vector is not None)),
                model="" if vector is None else vector.model_id,
                is_complete=reader.is_complete(),
                dimension_mismatch=dimension_mismatch,
                vector_problem=vector_problem,
            )
        # Only now is it certain that nothing failed in the read.
        self._remember(key, ranked)
        return replace(response, notes=(*lost, *notes), lost=tuple(lost))

    def _ranked(self, reader: StoreReader, context: SearchContext) -> tuple[Hashable, _Ranked]:
        vector = context.vector
        key = (
            context.request,
            (vector.model_id, len(vector.values), vector.text, vector.tuning) if vector else None,
            # If a model fails at times, vectors of subqueries may be missing.
            tuple(values is not None for _, values in vector.subqueries) if vector else (),
            context.encode is None,
            reader.state_of(vector.model_id if vector else context.wanted),
            reader.usage_generation(),
        )
        with self._lock:
            known = self._answers.get(key)
        return key, known or self._rank(reader, context)

    def _remember(self, key: Hashable, answer: _Ranked) -> None:
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > _CACHED_RESULTS:
                self._answers.popitem(last=False)

    def _rank(self, reader: StoreReader, context: SearchContext) -> _Ranked:
        request, vector = context.request, context.vector
        query, tools = query_of(request, vector), StoreCandidates(reader, context)
        new = unembedded(reader, tools, query, context)
        if new and vector is not None and context.encode is not None:
            own = self._in_memory.vectors(reader.entries(new), new, context.encode)
            tools = tools.embedded(own)
        usage, deprecated = self._usage(reader), self._deprecated_tools(reader)
        found = self._search.run(
            tools,
            query,
            limit=request.limit,
            min_confidence=request.min_confidence,
            weights=channel_weights(
                context, self._weights(request.mode, has_vector=vector is not None)
            ),
            usage=usage.counts,
            deprecated=deprecated.replacements,
            calibration=calibration_of("" if vector is None else vector.model_id),
        )
        results, placing = found.results, None
        if request.explain_id is not None:
            placing = found.explain_rank(request.explain_id)
            results = placing.results
        found_tools = tuple(_tool(it, tools, usage, deprecated.notices) for it in results)
        return _Ranked(found_tools, new, placing)

    def _usage(self, reader: StoreReader) -> _Usage:
        # Keyed by the store too: another database may have the same count.
        state = reader.state_of(), reader.usage_generation()
        known, usage = self._used
        if known != state:
            outcomes = reader.outcomes()
            counts = {id_: (it.successes, it.failures) for id_, it in outcomes.items()}
            usage = _Usage(outcomes, counts)
            self._used = state, usage
        return usage

    def _deprecated_tools(self, reader: StoreReader) -> _Deprecated:
        known, deprecated = self._deprecated
        if known != (state := reader.state_of()):
            found = reader.lexical(_DEPRECATED, where=ToolFilter(), depth=_MOST_DEPRECATED)
            entries = reader.entries([tool.id for tool in found])
            notices = {id_: text for id_, it in entries.items() if (text := deprecation(it))}
            instead = {id_: replacements(id_, notice) for id_, notice in notices.items()}
            deprecated = _Deprecated(notices, instead)
            self._deprecated = state, deprecated
        return deprecated

    def _weights(self, mode: SearchMode, *, has_vector: bool) -> dict[str, float]:
        """Return the channels of a search, with their weights."""
        if mode is SearchMode.FUZZY:
            return {"fuzzy": 1.0}
        if mode is SearchMode.HYBRID and has_vector:
            both = {"bm25": self._bm25_weight, "vector": self._vec_weight}
            return {name: weight for name, weight in both.items() if weight}
        if mode is SearchMode.VECTOR and has_vector:
            return {"vector": 1.0}
        # A request must be answered even if its only channel fails.
        return {"bm25": self._bm25_weight or 1.0}


def spelled(reader: StoreReader, text: str, known: Callable[[str], bool]) -> str:
    """Return a request in the tools' spelling, but for the words that a model knows."""
    return HybridSearch.correct_spelling(reader.corrections(text), text, known=known)


def calibration_of(model_id: str) -> Calibration:
    """Return the calibration of a model's similarities, or the default if it has none."""
    is_accurate = model_id.partition(":")[0] == "accurate"
    return _ACCURATE if is_accurate else _CALIBRATION


def hybrid_search(fusion: Literal["linear", "rrf"] = "linear", rrf_k: float = 60.0) -> HybridSearch:
    """Return the search that ranks tools, with the fusion that the settings name."""
    of_tools = partial(
        HybridSearch, group=_server, name=_name, label=_category, split=ToolId.words_of
    )
    if fusion == "rrf":
        return of_tools(fuse=partial(reciprocal_rank_fusion, rrf_k=rrf_k))
    return of_tools()


def _name(id_: str) -> str:
    return id_.rpartition(":")[2]


@lru_cache(maxsize=1 << 16)
def _server(id_: str) -> str:
    return id_.rpartition(":")[0]


def _category(server: str) -> str:
    return server.partition(":")[2]


def _tool(
    result: SearchResult, tools: StoreCandidates, usage: _Usage, deprecated: Mapping[str, str]
) -> FoundTool:
    entry = tools.entries([result.id])[result.id]
    if notice := deprecated.get(result.id):
        entry = replace(
            entry,
            summary=with_notice(notice, entry.summary),
            description=with_notice(notice, entry.description),
        )
    return FoundTool(
        entry=entry,
        score=result.score,
        match_type=MatchType(result.match),
        confidence=result.confidence,
        duplicates=result.duplicates,
        also=result.also,
        contributions=result.contributions,
        explanation=result.explanation,
        outcomes=usage.outcomes.get(result.id),
    )


class _Ranked(NamedTuple):
    """The tools that were found, and those that fit but have no vector."""

    tools: tuple[FoundTool, ...]
    unembedded: tuple[str, ...]
    placing: Rank | None = None


class _Usage(NamedTuple):
    """The outcomes of tools, and the numbers of their successes and failures, by id."""

    outcomes: Mapping[str, ToolOutcomes]
    counts: Mapping[str, tuple[int, int]]


class _Deprecated(NamedTuple):
    """The notices of deprecated tools, and the ids that these name, by id."""

    notices: Mapping[str, str]
    replacements: Mapping[str, frozenset[str]]


def _unsearchable(vectors: int, before: Coverage, vector: QueryVector) -> str | None:
    if vectors:
        return None
    if not before.vectors:
        return f"no tool has a vector of {vector.model_id} yet"
    return (
        f"{vector.model_id} returned {len(vector.values)}-dimensional vectors, the index has "
        f"{before.dimensions}. Run pytools-hybrid index."
    )


async def observed(mode: SearchMode, answer: Awaitable[SearchResponse]) -> SearchResponse:
    """Wait for the answer to a search, and count it; every interface searches through this."""
    with observe(SEARCHES, request_source.get(), mode.value) as seen:
        response = await answer
        seen.outcome = "found" if response.tools else "early" if response.early else "empty"
        seen.note(
            "tools",
            {
                "gen_ai.request.model": response.model,
                "pytools.channels": response.channels,
                "pytools.lost": response.lost,
                "pytools.results": len(response.tools),
            },
        )
        if response.lost:
            # Only this channel can fail: the others only need the index.
            for counter in lost_channels:
                counter.labels("vector").inc()
    return response


class ModelSelector:
    """Answers with vectors of the wanted model, or of the offline one until that has all tools."""

    def __init__(
        self, store: ToolStore, engine: RankingEngine, recorder: Recorder, embedder: Embedder | None
    ) -> None:
        self._store = store
        self.engine = engine
        self._recorder = recorder
        self._embedder = embedder
        # Two searches at a time finish sooner than many at once: they share one interpreter, and
        # while one waits for the database, the other computes.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._interim = interim_embedder(embedder)
        self._queries: dict[str, QueryEmbedder] = {}
        self._encoders: dict[str, QueryEncoder] = {}

    async def answer(self, request: SearchRequest, failure: str) -> SearchResponse:
        """Answer a request from the current state of the index."""
        wanted = self._embedder
        if wanted is None:
            is_missed = request.mode is SearchMode.VECTOR
            why = "vectors are turned off: embedding model 'none'" if is_missed else ""
            return await self._looked_up(request, None, why)
        if not self.engine.uses_vectors(request.mode):
            return await self._looked_up(request, None, "")
        if self._interim is not None:
            return await self._answered_by_faster(request, wanted, self._interim, failure)
        vector, why = await self._vector(request, wanted)
        response = await self._looked_up(request, vector, why or failure)
        if response.dimension_mismatch and isinstance(vector, QueryVector):
            # Not cached: the model may return the right one the next time.
            for text in (vector.text, *(text for text, _ in vector.subqueries)):
                self._queries[wanted.model_id].forget(text)
        offline, coverage = StaticEmbedder(), response.coverage
        # The offline model can find more without any stored vectors: it embeds the tools that fit
        # by their words before it answers.
        is_enough = response.model and coverage.vectors >= _ENOUGH * coverage.tools
        if is_enough or wanted.model_id == offline.model_id:
            return response
        vector, _ = await self._vector(request, offline)
        why = response.vector_problem or f"those of {wanted.model_id} are not ready"
        instead = await self._looked_up(request, vector, why)
        if response.tools and not instead.tools:
            return response
        return replace(
            instead, unembedded=response.unembedded, dimension_mismatch=response.dimension_mismatch
        )

    async def _answered_by_faster(
        self, request: SearchRequest, wanted: Embedder, interim: StaticEmbedder, failure: str
    ) -> SearchResponse:
        """Answer with the wanted model if all tools have its vectors, else with the faster one."""
        spelled = await asyncio.to_thread(self._spelled, request.text, wanted, interim.knows)
        if spelled is not None:
            vector, failure = await self._vector(request, wanted, spelled)
            if not failure:
                response = await self._looked_up(request, vector, "")
                # A tool may have changed in the meantime.
                if response.coverage.vectors >= response.coverage.tools:
                    return response
        vector, why = await self._vector(request, interim)
        # Users only need to know if the wanted model fails, not that it is unfinished.
        model_id = wanted.model_id if failure else interim.model_id
        return await self._looked_up(request, vector, why or failure, model_id=model_id)

    def _spelled(self, text: str, wanted: Embedder, known: Callable[[str], bool]) -> str | None:
        """Return a request in the tools' spelling, or None if not all tools have vectors.

        Our models know only the pieces of a misspelt word; a provider's copes with it.
        """
        with self._store.reading() as reader:
            coverage = reader.coverage(wanted.model_id)
            if coverage.vectors < coverage.tools:
                return None
            return spelled(reader, text, known)

    async def _looked_up(
        self,
        request: SearchRequest,
        vector: QueryVector | QueryEncoder | None,
        why: str,
        *,
        model_id: str | None = None,
    ) -> SearchResponse:
        if model_id is None and self._embedder is not None:
            model_id = self._embedder.model_id
        async with self._turns:
            return await asyncio.to_thread(
                self.engine.answer,
                request,
                model_id=model_id,
                query=vector,
                why=why,
            )

    async def _vector(
        self, request: SearchRequest, embedder: Embedder, spelled: str | None = None
    ) -> tuple[QueryVector | QueryEncoder | None, str]:
        if not Query(request.text).terms:
            return None, ""
        if isinstance(embedder, StaticEmbedder):
            # It takes less time than another thread, so it is context where the index is read.
            if embedder.model_id not in self._encoders:
                self._encoders[embedder.model_id] = QueryEncoder(embedder)
            return self._encoders[embedder.model_id], ""
        queries = self._queries.get(embedder.model_id)
        if queries is None:
            queries = QueryEmbedder(embedder, self._store, self._recorder)
            self._queries[embedder.model_id] = queries
        return await queries.vector(Query.of(spelled or request.text))
