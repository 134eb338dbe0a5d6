"""A query against one state of the store: candidates, fusion, details, and what was lost."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Literal, Protocol

from toolindex import Coverage, ToolFilter
from toolrank import (
    Channel,
    Evidence,
    Fingerprint,
    Hit,
    HybridRanker,
    Query,
    confidence,
    group_duplicates,
    linear_fusion,
    name_key,
    query_terms,
    reciprocal_rank_fusion,
    split_request,
    usage_prior,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from toolindex import Candidate, StoreReader, ToolEntry, ToolStore
    from toolrank import Contribution, Explanation, Fusion, RankedHit

    from pytools_hybrid.reranking import RerankReport

__all__ = [
    "MAX_LIMIT",
    "FoundTool",
    "QueryVector",
    "Scope",
    "SearchMode",
    "SearchRequest",
    "SearchResponse",
    "Searcher",
    "why_empty",
]

MAX_LIMIT = 50
_CACHED_RESULTS = 512
# All of these were chosen by ablation: docs/decisions/0008.
_UNITS = {"bm25": 0.015, "vector": 1.0, "fuzzy": 0.015}
_PART_SHARE = 0.3
_CATEGORY_WEIGHT = 0.3
_FUSIONS: dict[str, Fusion] = {
    "linear": partial(linear_fusion, units=_UNITS),
    "rrf": reciprocal_rank_fusion,
}
# To fill the list again where near-identical tools have been put together.
_SPARE = 5
# "Get details" says too little to tell that two tools are the same.
_TELLING_WORDS = 5
# One word in forty may differ.
_SAME = 0.95
_WORD = re.compile(r"[^\W_]+")
_WORD_CHANNELS = frozenset({"bm25", "fuzzy"})
_NO_COVERAGE = Coverage(tools=0, vectors=0, dimensions=0)


class SearchMode(StrEnum):
    """Which channels a search uses."""

    HYBRID = "hybrid"
    BM25 = "bm25"
    VECTOR = "vector"
    FUZZY = "fuzzy"


class Scope(StrEnum):
    """Which source's tools a search may return."""

    ALL = "all"
    GENTOOLS = "gentools"
    MCPTOOLS = "mcptools"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is searched; equal requests to one state of the index have equal answers.

    Attributes:
        text: The request in plain language.
        mode: Which channels.
        where: Which tools.
        limit: How many at most.
        min_confidence: How sure it must be that a tool answers the request, in [0, 1].
    """

    text: str
    mode: SearchMode = SearchMode.HYBRID
    where: ToolFilter = field(default_factory=ToolFilter)
    limit: int = 5
    min_confidence: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVector:
    """The query as a model sees it.

    Attributes:
        model_id: The model.
        values: One float per dimension.
        text: What was embedded: the request, its misspelt words corrected.
        parts: The parts of a compound request, each with its own vector, or None where the model
            gave none: that part is searched by words.
    """

    model_id: str
    values: Sequence[float] = field(repr=False)
    text: str = ""
    parts: tuple[tuple[str, Sequence[float] | None], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTool:
    """One result.

    Attributes:
        entry: The tool.
        score: In [0, 1]; orders the results of one search.
        confidence: In [0, 1]; how sure it is that the tool answers the request, or the part of
            it that it answers best. It means about the same for every search and mode, and less
            where a filter leaves few tools to compare with.
        duplicates: Ids of tools that say the same, left out for this one.
        contributions: What each channel gave.
        explanation: How the score came about.
    """

    entry: ToolEntry
    score: float
    confidence: float = 0.0
    duplicates: tuple[str, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResponse:
    """The answer to one search.

    Attributes:
        tools: Best first.
        notes: What the reader should know of the answer: channels that were lost and why,
            vectors still missing, and what to try when nothing was found.
        lost: Those of the notes that tell of a lost channel.
        generation: The state of the index that answered.
        coverage: How many tools that state has, and how many of them have a vector of the model
            that was used, or would have been.
        channels: The names of the channels that ran: "bm25", "vector", "fuzzy".
        rerank: What a language model made of the order, or None where none was to be asked.
        is_complete: Whether the whole tree has been indexed since the database was made.
        misfit: Whether the query's vector is of another length than those of the index.
        fuller_models: Models that could find more tools than the one that was asked, best first.
        search_id: How the usage record names this search.
    """

    tools: tuple[FoundTool, ...]
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    generation: int = 0
    coverage: Coverage = _NO_COVERAGE
    channels: tuple[str, ...] = ()
    rerank: RerankReport | None = None
    is_complete: bool = True
    misfit: bool = False
    fuller_models: tuple[str, ...] = ()
    search_id: str = ""

    @property
    def tool_count(self) -> int:
        """How many tools the state of the index has that answered."""
        return self.coverage.tools


class Searcher:
    """Answers requests from a store, remembering answers until the store changes.

    Args:
        store: What to search.
        bm25_weight: The weight of words in hybrid mode.
        vec_weight: The weight of meaning in hybrid mode.
        fusion: How the channels' rankings become one.
    """

    def __init__(
        self,
        store: ToolStore,
        *,
        bm25_weight: float,
        vec_weight: float,
        fusion: Literal["linear", "rrf"],
    ) -> None:
        self._store = store
        self._bm25_weight = bm25_weight
        self._vec_weight = vec_weight
        self._fuse = _FUSIONS[fusion]
        # An answer is a function of its key: no time after which it goes bad.
        self._answers: OrderedDict[object, tuple[FoundTool, ...]] = OrderedDict()
        self._factors: tuple[tuple[int, int] | None, Mapping[str, float]] = None, {}
        self._lock = Lock()

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Tell whether a search of this mode asks the vector channel."""
        return mode is SearchMode.VECTOR or (mode is SearchMode.HYBRID and self._vec_weight > 0)

    def answer(
        self, request: SearchRequest, *, model_id: str | None, vector: QueryVector | None, why: str
    ) -> SearchResponse:
        """Answer a request from the state that the store has now.

        Args:
            request: The request.
            model_id: The model whose vectors are wanted, or None for none.
            vector: The query's vector: that model's, or another's in its place.
            why: Why there is no vector, or another's; empty where that needs no word.

        Raises:
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        lost: list[str] = []
        notes: list[str] = []
        misfit = False
        with self._store.reading() as reader:
            wanted = model_id if self.uses_vectors(request.mode) else None
            coverage = reader.coverage(vector.model_id if vector else model_id or "")
            if coverage.tools and vector is not None:
                missing = _unsearchable(coverage.vectors, coverage.dimensions, vector)
                misfit = missing is not None and coverage.vectors > 0
                if missing:
                    vector, why = None, why or missing
                elif vector.model_id != wanted:
                    notes.append(f"searched with vectors of {vector.model_id} ({why})")
                elif coverage.vectors < coverage.tools:
                    reason = f" ({why})" if why else ""
                    notes.append(
                        f"{coverage.vectors} of {coverage.tools} tools have vectors so far{reason}"
                    )
            if vector is not None:
                vector = _with_usable_parts(vector)
                if any(values is None for _, values in vector.parts):
                    notes.append("a part of the request was searched by words alone: no vector")
            if coverage.tools and vector is None and why:
                lost.append(f"vector channel lost ({why}): searched by words")
            response = SearchResponse(
                tools=self._ranked(reader, request, vector),
                generation=reader.generation(),
                coverage=coverage,
                channels=tuple(self._weights(request.mode, has_vector=vector is not None)),
                is_complete=reader.is_complete(),
                misfit=misfit,
                fuller_models=() if wanted is None else _fuller(reader, wanted),
            )
        return replace(response, notes=(*lost, *notes), lost=tuple(lost))

    def corrected(self, text: str, *, known: Callable[[str], bool]) -> str:
        """Give a request with its misspelt words as the tools spell them.

        Args:
            text: The request.
            known: Tells that a word, in lower case, is right though no tool has it.

        Raises:
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        with self._store.reading() as reader:
            found = reader.corrections(text)
        corrections = {word: right for word, right in found.items() if not known(word)}
        if not corrections:
            return text
        return _WORD.sub(lambda word: corrections.get(word[0].lower(), word[0]), text)

    def _ranked(
        self, reader: StoreReader, request: SearchRequest, vector: QueryVector | None
    ) -> tuple[FoundTool, ...]:
        key = (
            request,
            vector.model_id if vector else None,
            # Those of a model that fails at times may be missing.
            tuple(values is not None for _, values in vector.parts) if vector else (),
            reader.generation(),
            reader.usage_generation(),
        )
        with self._lock:
            if (answer := self._answers.get(key)) is not None:
                self._answers.move_to_end(key)
                return answer
        answer = self._rank(reader, request, vector)
        with self._lock:
            self._answers[key] = answer
            if len(self._answers) > _CACHED_RESULTS:
                self._answers.popitem(last=False)
        return answer

    def _rank(
        self, reader: StoreReader, request: SearchRequest, vector: QueryVector | None
    ) -> tuple[FoundTool, ...]:
        named = {hit.id: hit.score for hit in reader.named(request.text, where=request.where)}
        channels = self._channels(reader, request, vector)
        ranker = HybridRanker(
            channels,
            fuse=self._fuse,
            part_share=_PART_SHARE,
            group=_category,
            group_weight=_CATEGORY_WEIGHT,
            usage=self._usage(reader),
        )
        query = _query(request, vector)
        depth = request.limit + _SPARE + len(named)
        while True:
            hits = ranker.rank(query, limit=depth, pinned=list(named))
            if len(named) > 1:
                # Of several that are called the same, the one that fits best is first.
                hits = sorted(hits, key=lambda hit: _place(hit, named))
            entries = reader.entries([hit.id for hit in hits])
            # An id that is not among the entries of the same state is damaged.
            known = [hit for hit in hits if hit.id in entries]
            distinct = group_duplicates(known, fingerprint=_fingerprints(entries), similarity=_SAME)
            if len(distinct) >= request.limit or len(hits) < depth:
                break
            depth *= 4
        scales = [reader.lexical_scale(asked.text) for asked in (query, *query.parts)]
        ran = {channel.retriever.name for channel in channels}
        found = (
            FoundTool(
                entry=entries[hit.id],
                score=hit.score,
                confidence=_confidence(hit, ran, scales),
                duplicates=hit.duplicates,
                contributions=hit.contributions,
                explanation=hit.explanation,
            )
            for hit in distinct
        )
        sure = (tool for tool in found if tool.confidence >= request.min_confidence)
        return tuple(islice(sure, request.limit))

    def _channels(
        self, reader: StoreReader, request: SearchRequest, vector: QueryVector | None
    ) -> list[Channel]:
        weights = self._weights(request.mode, has_vector=vector is not None)
        channels: list[Channel] = []
        if "bm25" in weights:
            words = _Words("bm25", reader.lexical, request.where)
            channels.append(Channel(words, weights["bm25"]))
        if "fuzzy" in weights:
            alike = _Words("fuzzy", reader.fuzzy, request.where)
            channels.append(Channel(alike, weights["fuzzy"]))
        if "vector" in weights and vector is not None:
            meaning = _Meaning(reader, request.where, vector.model_id)
            channels.append(Channel(meaning, weights["vector"], absent="last"))
        return channels

    def _usage(self, reader: StoreReader) -> Mapping[str, float]:
        # Of both, for another database may have counted as far as this one.
        state = reader.generation(), reader.usage_generation()
        known, factors = self._factors
        if known != state:
            outcomes = reader.outcomes()
            factors = {id_: usage_prior(*counts) for id_, counts in outcomes.items()}
            self._factors = state, factors
        return factors

    def _weights(self, mode: SearchMode, *, has_vector: bool) -> dict[str, float]:
        """Give the channels that a search asks, with their say."""
        if mode is SearchMode.FUZZY:
            return {"fuzzy": 1.0}
        if mode is SearchMode.HYBRID and has_vector:
            both = {"bm25": self._bm25_weight, "vector": self._vec_weight}
            return {name: weight for name, weight in both.items() if weight}
        if mode is SearchMode.VECTOR and has_vector:
            return {"vector": 1.0}
        # A request must not go unanswered because its only channel is lost.
        return {"bm25": self._bm25_weight or 1.0}


class _AsksWords(Protocol):
    """What a store's reader has for each way to look at words."""

    def __call__(self, query: str, *, where: ToolFilter, depth: int) -> Sequence[Candidate]: ...


@dataclass(frozen=True, slots=True)
class _Words:
    """A store's candidates by words as a channel of the ranker."""

    name: str
    ask: _AsksWords
    where: ToolFilter

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        return _hits(self.ask(query.text, where=self.where, depth=depth))


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A store's candidates by the vectors of a model as a channel of the ranker."""

    reader: StoreReader
    where: ToolFilter
    model_id: str

    @property
    def name(self) -> str:
        return "vector"

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        if query.vector is None:
            return []
        return _hits(
            self.reader.nearest(query.vector, model_id=self.model_id, where=self.where, depth=depth)
        )


def _hits(candidates: Sequence[Candidate]) -> list[Hit]:
    # Those of our own store are hits already, and there are hundreds for every search.
    return [
        found if isinstance(found, Hit) else Hit(id=found.id, score=found.score)
        for found in candidates
    ]


def _query(request: SearchRequest, vector: QueryVector | None) -> Query:
    if vector is None:
        parts = tuple(Query(text=part) for part in split_request(request.text))
        return Query(text=request.text, parts=parts)
    parts = tuple(Query(text=text, vector=values) for text, values in vector.parts)
    return Query(text=request.text, vector=vector.values, parts=parts)


@lru_cache(maxsize=1 << 16)
def _category(id_: str) -> str:
    return id_.rpartition(":")[0]


def _place(hit: RankedHit, named: Mapping[str, float]) -> tuple[float, float]:
    if hit.id not in named or hit.explanation is None:
        return 0.0, 0.0
    return -named[hit.id], -hit.explanation.merged


def _fingerprints(entries: Mapping[str, ToolEntry]) -> Callable[[str], Fingerprint | None]:
    """Compare the tools of one name, whose descriptions and parameters say enough to compare."""
    keys = {id_: name_key(entry.id.name) for id_, entry in entries.items()}
    counts = Counter(keys.values())

    def fingerprint(id_: str) -> Fingerprint | None:
        if counts[keys[id_]] == 1:
            return None
        entry = entries[id_]
        words = _WORD.findall(entry.description.casefold())
        if len(words) < _TELLING_WORDS:
            return None
        parameters = (f"{p.name}: {p.annotation}" for p in entry.parameters)
        return Fingerprint(frozenset({keys[id_], *parameters}), frozenset(words))

    return fingerprint


def _confidence(hit: RankedHit, channels: Set[str], scales: Sequence[float]) -> float:
    """Give the confidence in a hit as an answer to the request, or to the part that it answers.

    Args:
        hit: The hit.
        channels: The channels that ran; one that did not give the hit says that it is far off.
        scales: What the BM25 scores of the request and of each part are divided by.
    """
    explanation = hit.explanation
    is_exact = explanation is not None and explanation.pinned
    given = [(hit.contributions, scales[0])]
    if explanation is not None and explanation.part is not None:
        given.append((hit.part_contributions, scales[1 + explanation.part]))
    return max(
        confidence(
            Evidence(
                strength=_strength(contributions, scale) if channels & _WORD_CHANNELS else None,
                contrast=_contrast(contributions) if "vector" in channels else None,
                is_exact=is_exact,
            )
        )
        for contributions, scale in given
    )


def _strength(contributions: Sequence[Contribution], scale: float) -> float:
    found = (each.score for each in contributions if each.retriever in _WORD_CHANNELS)
    return next(found, 0.0) / scale if scale else 0.0


def _contrast(contributions: Sequence[Contribution]) -> float:
    found = (each.score - each.background for each in contributions if each.retriever == "vector")
    return next(found, 0.0)


def _unsearchable(vectors: int, dimensions: int, vector: QueryVector) -> str | None:
    if vectors == 0:
        return "no tool has a vector yet"
    if len(vector.values) != dimensions:
        return f"{vector.model_id} gave {len(vector.values)} dimensions, the index has {dimensions}"
    return None


def _with_usable_parts(vector: QueryVector) -> QueryVector:
    """Leave out the vectors of parts that are of another length than that of the request."""
    length = len(vector.values)
    parts = tuple(
        (text, values if values is not None and len(values) == length else None)
        for text, values in vector.parts
    )
    return replace(vector, parts=parts)


def _fuller(reader: StoreReader, wanted: str) -> tuple[str, ...]:
    coverage = reader.coverage(wanted)
    if coverage.vectors >= coverage.tools:
        return ()
    counts = {model: reader.coverage(model).vectors for model in reader.models() if model != wanted}
    fuller = [model for model, vectors in counts.items() if vectors > coverage.vectors]
    return tuple(sorted(fuller, key=lambda model: (-counts[model], model)))


def why_empty(
    request: SearchRequest, response: SearchResponse, *, root: object, syncs: bool
) -> str:
    """Say why nothing was found, and what to try."""
    count = response.tool_count
    if not response.is_complete and syncs:
        return f"the tools of {root} are still being indexed: ask again in a moment"
    if count == 0:
        remedy = "" if syncs else "; syncing is off: run pytools-hybrid index"
        return (
            f"no tools of {root} in the index: looked for mcptools/<category>/<tool>.py "
            "and gentools/<category>/<tool>/api.py with a documented run() or run_parsed()"
            f"{remedy}"
        )
    if not query_terms(request.text):
        return "the query holds no words: describe what the tool should do"
    if request.min_confidence > 0:
        return (
            f"none of the {count} tools is likely enough to do this (confidence of at least "
            f"{request.min_confidence:g}): ask for less confidence, or try other words"
        )
    if request.where != ToolFilter():
        return (
            f"none of the {count} tools passes the filters and fits: ask for less, and mind that "
            "names of categories and tags are compared as they are written"
        )
    return f"none of the {count} tools fits: try other words"
