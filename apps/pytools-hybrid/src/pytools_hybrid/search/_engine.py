"""Answering a query from one state of the store: candidates, fusion, details, failed channels."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolembed import EmbeddingError
from toolindex import ToolFilter
from toolrank import Calibration, HybridSearch, reciprocal_rank_fusion
from toolscan import ToolId

from pytools_hybrid.search._channels import (
    Asked,
    Newcomers,
    StoreCandidates,
    channel_weights,
    query_of,
    unembedded,
)
from pytools_hybrid.search._deprecation import deprecation, replacements, with_notice
from pytools_hybrid.search._query_vectors import QueryEncoder, QueryVector
from pytools_hybrid.search._tuning import TuningFile
from pytools_hybrid.search._types import (
    FoundTool,
    MatchType,
    SearchMode,
    SearchRequest,
    SearchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from toolindex import Coverage, StoreReader, ToolOutcomes, ToolStore
    from toolrank import RankExplanation, SearchResult

    from pytools_hybrid.search._query_vectors import Encode

_CACHED_RESULTS = 512
# In capitals it is not corrected to a similar word.
_DEPRECATED = "DEPRECATED"
_MOST_DEPRECATED = 1_000
_CALIBRATION = Calibration()
_ACCURATE = Calibration.accurate()


class Searcher:
    """Answers requests from a store, remembering answers until the store changes.

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
        self._newcomers = Newcomers()
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
        shortfall, misfit = why, False
        with self._store.reading() as reader:
            wanted = model_id if self.uses_vectors(request.mode) else None
            vector: QueryVector | None = None
            encode: Encode | None = None
            if isinstance(query, QueryEncoder):
                try:
                    text = spelled(reader, request.text, query.knows)
                    vector, encode = query.vector(text), query.documents
                except EmbeddingError as error:
                    shortfall = why = str(error)
            else:
                vector = query
            length = None if vector is None else len(vector.values)
            coverage = reader.coverage(
                vector.model_id if vector else model_id or "", dimensions=length
            )
            if coverage.tools and vector is not None:
                before = reader.coverage(vector.model_id)
                misfit = coverage.vectors == 0 and before.vectors > 0
                missing = _unsearchable(coverage.vectors, before, vector)
                if missing and (encode is None or misfit):
                    vector, shortfall = None, why or missing
                elif vector.model_id != wanted:
                    lost.append(f"searched with vectors of {vector.model_id} ({why})")
                elif coverage.vectors < coverage.tools:
                    reason = f" ({why})" if why else ""
                    shortfall = (
                        f"{coverage.vectors} of {coverage.tools} tools have vectors so far{reason}"
                    )
                    notes.append(shortfall)
            if vector is not None:
                vector, ignored = vector.with_usable_subqueries().tuned(self._tuning)
                notes += [ignored] * bool(ignored)
                if any(values is None for _, values in vector.subqueries):
                    notes.append("One part of the query was searched by keywords only.")
            if coverage.tools and vector is None and shortfall:
                lost.append(f"vector channel lost ({shortfall}): searched by words")
            key, ranked = self._ranked(reader, Asked(request, vector, wanted, coverage, encode))
            response = SearchResponse(
                tools=ranked.tools,
                placing=ranked.placing,
                unembedded=ranked.unembedded,
                generation=reader.generation(),
                coverage=coverage,
                channels=tuple(self._weights(request.mode, has_vector=vector is not None)),
                model="" if vector is None else vector.model_id,
                is_complete=reader.is_complete(),
                misfit=misfit,
                shortfall=shortfall,
                fuller_models=() if wanted is None else _fuller(reader, wanted, length),
            )
        # Only now is it certain that nothing failed in the read.
        self._remember(key, ranked)
        return replace(response, notes=(*lost, *notes), lost=tuple(lost))

    def _ranked(self, reader: StoreReader, asked: Asked) -> tuple[Hashable, _Ranked]:
        vector = asked.vector
        key = (
            asked.request,
            (vector.model_id, len(vector.values), vector.text, vector.tuning) if vector else None,
            # If a model fails at times, vectors of subqueries may be missing.
            tuple(values is not None for _, values in vector.subqueries) if vector else (),
            asked.encode is None,
            reader.state_of(vector.model_id if vector else asked.wanted),
            reader.usage_generation(),
        )
        with self._lock:
            known = self._answers.get(key)
        return key, known or self._rank(reader, asked)

    def _remember(self, key: Hashable, answer: _Ranked) -> None:
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > _CACHED_RESULTS:
                self._answers.popitem(last=False)

    def _rank(self, reader: StoreReader, asked: Asked) -> _Ranked:
        request, vector = asked.request, asked.vector
        query, tools = query_of(request, vector), StoreCandidates(reader, asked)
        new = unembedded(reader, tools, query, asked)
        if new and vector is not None and asked.encode is not None:
            own = self._newcomers.vectors(reader.entries(new), new, asked.encode)
            tools = tools.embedded(own)
        usage, deprecated = self._usage(reader), self._deprecated_tools(reader)
        found = self._search.run(
            tools,
            query,
            limit=request.limit,
            min_confidence=request.min_confidence,
            weights=channel_weights(
                asked, self._weights(request.mode, has_vector=vector is not None)
            ),
            usage=usage.counts,
            deprecated=deprecated.replacements,
            calibration=calibration_of("" if vector is None else vector.model_id),
        )
        results, placing = found.results, None
        if request.place_of is not None:
            placing = found.explain_rank(request.place_of)
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
    placing: RankExplanation | None = None


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
        f"{vector.model_id} gave {len(vector.values)} dimensions, the index has "
        f"{before.dimensions}; `pytools-hybrid index` embeds all tools again"
    )


def _fuller(reader: StoreReader, wanted: str, dimensions: int | None) -> tuple[str, ...]:
    coverage = reader.coverage(wanted, dimensions=dimensions)
    if coverage.vectors >= coverage.tools:
        return ()
    counts = {model: reader.coverage(model).vectors for model in reader.models() if model != wanted}
    fuller = [model for model, vectors in counts.items() if vectors > coverage.vectors]
    return tuple(sorted(fuller, key=lambda model: (-counts[model], model)))
