"""Answering a query from one state of the store: candidates, fusion, details, failed channels."""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from dataclasses import replace
from functools import cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from toolembed import EmbeddingError
from toolindex import ToolFilter
from toolrank import HybridRanker, RankedHit, Ranking, usage_prior

from pytools_hybrid.search._channels import (
    Asked,
    Newcomers,
    Words,
    channels_of,
    query_of,
    unembedded,
)
from pytools_hybrid.search._deprecation import deprecation
from pytools_hybrid.search._details import Details, TraitsCache
from pytools_hybrid.search._query_vectors import QueryEncoder, QueryVector
from pytools_hybrid.search._tuning import TuningFile
from pytools_hybrid.search._types import (
    FoundTool,
    Placing,
    SearchMode,
    SearchRequest,
    SearchResponse,
)
from pytools_hybrid.settings import MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from toolindex import Coverage, StoreReader, ToolOutcomes, ToolStore
    from toolrank import Query, Ranker

    from pytools_hybrid.search._fusion_weights import RankerFactory
    from pytools_hybrid.search._query_vectors import Encode

_CACHED_RESULTS = 512
# Spare candidates keep the list full after near-identical tools are merged.
_SPARE = 5
# How many candidates a channel is asked for, at least.
_DEPTH = 100
# In capitals it is not corrected to a similar word.
_DEPRECATED = "DEPRECATED"
_MOST_DEPRECATED = 1_000
_WORD = re.compile(r"[^\W_]+")


class Searcher:
    """Answers requests from a store, remembering answers until the store changes.

    Args:
        store: What to search.
        bm25_weight: The weight of words in hybrid mode.
        vec_weight: The weight of meaning in hybrid mode.
        ranker: Creates the ranker of a search from its channels and the usage factors by id.
        tuning: What was learned from the user's own requests.
    """

    def __init__(
        self,
        store: ToolStore,
        *,
        bm25_weight: float,
        vec_weight: float,
        ranker: RankerFactory,
        tuning: TuningFile | None = None,
    ) -> None:
        self._store = store
        self._bm25_weight = bm25_weight
        self._vec_weight = vec_weight
        self._ranker = ranker
        self._tuning = tuning or TuningFile(None)
        # An answer depends on its key alone, so it does not expire.
        self._answers: OrderedDict[object, _Ranked] = OrderedDict()
        self._newcomers = Newcomers()
        self._traits = TraitsCache()
        self._used: tuple[Hashable, _Usage] = None, _Usage({}, {})
        self._deprecated: tuple[Hashable, Mapping[str, str]] = None, {}
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
                    text = corrected(reader, request.text, known=query.knows)
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
                vector, ignored = vector.with_usable_parts().tuned(self._tuning)
                notes += [ignored] * bool(ignored)
                if any(values is None for _, values in vector.parts):
                    notes.append(
                        "a part of the request was searched by words alone: it has no vector"
                    )
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
            # If a model fails at times, vectors of parts may be missing.
            tuple(values is not None for _, values in vector.parts) if vector else (),
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
        named = {hit.id: hit.score for hit in reader.named(request.text, where=request.where)}
        query = query_of(request, vector)
        words = Words("bm25", cache(reader.lexical), request.where)
        new = unembedded(reader, words, query, asked)
        own: Mapping[str, Sequence[float]] = {}
        if new and vector is not None and asked.encode is not None:
            own = self._newcomers.vectors(reader.entries(new), new, asked.encode)
        weights = self._weights(request.mode, has_vector=vector is not None)
        channels = channels_of(reader, asked, words, own, weights)
        usage = self._usage(reader)
        ranker = self._ranker(channels, usage.factors)
        model_id = "" if vector is None else vector.model_id
        ran = frozenset(channel.retriever.name for channel in channels)
        details = Details(
            reader,
            query,
            ran,
            model_id,
            usage.outcomes,
            self._deprecated_tools(reader),
            self._traits.of_state(reader.state_of()),
        )
        place_of = request.place_of

        def rank(depth: int) -> Ranking:
            ranking = _ranking(ranker, query, depth, named, whole=place_of is not None)
            return details.with_deprecated_lower(ranking, ranking.ids[:depth], named)

        # For any limit the same tools are ranked, so that a longer answer begins with the shorter.
        most = max(request.limit, MAX_LIMIT)
        depth = most + _SPARE + len(named)
        tools = details.tools(rank, depth, most=most, at_once=request.limit)
        sure = (tool for tool in tools if tool.confidence >= request.min_confidence)
        shown = tuple(islice(sure, request.limit))
        if place_of is None:
            return _Ranked(shown, new)
        return _placed(place_of, shown, rank(depth), depth, details, new)

    def _usage(self, reader: StoreReader) -> _Usage:
        # Keyed by the store too: another database may have the same count.
        state = reader.state_of(), reader.usage_generation()
        known, usage = self._used
        if known != state:
            outcomes = reader.outcomes()
            factors = {id_: usage_prior(it.successes, it.failures) for id_, it in outcomes.items()}
            usage = _Usage(outcomes, factors)
            self._used = state, usage
        return usage

    def _deprecated_tools(self, reader: StoreReader) -> Mapping[str, str]:
        """Return the notices of all tools that say that they are deprecated, by id."""
        known, notices = self._deprecated
        if known != (state := reader.state_of()):
            found = reader.lexical(_DEPRECATED, where=ToolFilter(), depth=_MOST_DEPRECATED)
            entries = reader.entries([tool.id for tool in found])
            notices = {id_: said for id_, it in entries.items() if (said := deprecation(it))}
            self._deprecated = state, notices
        return notices

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


def corrected(reader: StoreReader, text: str, *, known: Callable[[str], bool]) -> str:
    """Return a request as our models understand it best.

    Misspelt words, but for known ones, are in the tools' spelling, names that no tool has are
    followed by the tools' own, and compatibility characters are plain ones.
    """
    found = reader.corrections(text)
    corrections = {
        word: right
        for word, right in found.items()
        if right.startswith(f"{word} ") or not known(word)
    }
    if corrections:
        text = _WORD.sub(lambda word: corrections.get(word[0].lower(), word[0]), text)
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


class _Ranked(NamedTuple):
    """The tools that were found, and those that fit but have no vector."""

    tools: tuple[FoundTool, ...]
    unembedded: tuple[str, ...]
    placing: Placing | None = None


class _Usage(NamedTuple):
    """The outcomes of tools, and the resulting factors of their scores, by id."""

    outcomes: Mapping[str, ToolOutcomes]
    factors: Mapping[str, float]


def _sorted(hits: Sequence[RankedHit], named: Mapping[str, float]) -> Sequence[RankedHit]:
    if len(named) <= 1:
        return hits

    def place(hit: RankedHit) -> tuple[float, float]:
        if hit.id not in named or hit.explanation is None:
            return 0.0, 0.0
        return -named[hit.id], -hit.explanation.merged

    return sorted(hits, key=place)


def _ranking(
    ranker: Ranker, query: Query, depth: int, named: Mapping[str, float], *, whole: bool
) -> Ranking:
    """Return what a ranker finds for the first `depth` places; if `whole`, beyond as far as it can.

    Of several tools with the same name, the one that fits best comes first.
    """
    if isinstance(ranker, HybridRanker):
        ranking = ranker.ranking(
            query,
            depth=max(depth, _DEPTH),
            pinned=list(named),
            limit=None if whole else depth,
        )
        if len(named) <= 1:
            return ranking
        first = _sorted(ranking.hits(ranking.ids[: len(named)]), named)
        return ranking._replace(ids=[*(hit.id for hit in first), *ranking.ids[len(named) :]])
    hits = _sorted(ranker.rank(query, limit=depth, pinned=list(named)), named)
    of = {hit.id: hit for hit in hits}

    def made(ids: Sequence[str]) -> list[RankedHit]:
        return [of[id_] for id_ in ids]

    return Ranking(list(of), {id_: hit.score for id_, hit in of.items()}, made)


def _placed(
    id_: str,
    shown: tuple[FoundTool, ...],
    ranking: Ranking,
    depth: int,
    details: Details,
    new: tuple[str, ...],
) -> _Ranked:
    """Return the tool whose place is asked for, and the one that it is compared with.

    Args:
        id_: The tool.
        shown: The answer of a search.
        ranking: What that search ranked.
        depth: How many of these tools the answer was taken from.
        details: What it knows of the tools.
        new: The tools that fit but have no vector.
    """
    ids = ranking.ids
    for at, tool in enumerate(shown):
        if tool.id == id_:
            before = shown[at - 1 : at]
            return _Ranked((tool, *before), new, Placing(rank=at + 1, ranked=len(ids)))
    last = shown[-1:]
    if id_ not in ids:
        return _Ranked(last, new, Placing(ranked=len(ids)))
    distinct = dict(details.distinct(ids[:depth] if id_ in ids[:depth] else ids))
    if id_ not in distinct:
        numbered = enumerate(distinct.items(), start=1)
        same = next(((number, it) for number, (it, equal) in numbered if id_ in equal.ids), None)
        return _Ranked((), new, Placing(ranked=len(ids), same=same))
    kept = [*distinct]
    # All scores are relative to the confidence of the first.
    found = details.one(ranking, kept[0], id_)
    rank = max(kept.index(id_), len(shown)) + 1
    return _Ranked((*found, *last), new, Placing(rank=rank, ranked=len(ids)))


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
