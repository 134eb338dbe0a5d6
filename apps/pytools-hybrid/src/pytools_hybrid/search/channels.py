"""The candidates of a search from the store, and the meaning of tools that have no vector yet."""

from __future__ import annotations

import math
import re
from array import array
from itertools import chain, zip_longest
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from toolembed import EmbeddingError
from toolindex import ToolFilter
from toolrank import Hit, Query

from pytools_hybrid.telemetry import span

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from toolindex import Coverage, StoreReader, ToolEntry

    from pytools_hybrid.search.types import SearchRequest
    from pytools_hybrid.search.vectors import Encode, QueryVector

    _Traits = tuple[Sequence[str], Sequence[str], Hashable | None]

# Each text of 150 to 300 characters takes 0.3 to 0.6 ms of CPU on two busy cores.
_MOST = 64
_MOST_CHARACTERS = 30_000
# A kilobyte per vector.
_REMEMBERED = 4_096
_DEPTH, _SUBQUERY_DEPTH = 100, 50
_EVERY = ToolFilter()
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# A name of any other type may mean something else in another module.
_PLAIN_TYPES = frozenset(
    """
    str int float bool bytes list dict tuple set frozenset None Any Literal Optional Union List Dict
    Tuple Set True False typing
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)


class SearchContext(NamedTuple):
    """A request with everything that its answer depends on, except the state of the store.

    Attributes:
        request: The request.
        vector: The vector of the request; None to search without.
        wanted: The model whose vectors should be searched, or None.
        coverage: How many tools there are, and how many have vectors.
        encode: As for `RankingEngine.answer`.
    """

    request: SearchRequest
    vector: QueryVector | None
    wanted: str | None
    coverage: Coverage
    encode: Encode | None


class StoreCandidates:
    """The candidates of one search from a state of the store.

    Some tools may have vectors here that are not stored yet.

    Args:
        reader: The state.
        context: The request.
        own: Vectors by id, for tools that have none in the store yet.
        where: Which tools, if not those of the request.
    """

    def __init__(
        self,
        reader: StoreReader,
        context: SearchContext,
        own: Mapping[str, Sequence[float]] | None = None,
        *,
        where: ToolFilter | None = None,
    ) -> None:
        self._reader = reader
        self._context = context
        self._own = own or {}
        self._where = context.request.where if where is None else where
        self._entries: dict[str, ToolEntry] = {}
        self._words: dict[tuple[str, int], Sequence[Hit]] = {}

    def embedded(self, own: Mapping[str, Sequence[float]]) -> StoreCandidates:
        """Return the same with the vectors of some more tools."""
        same = StoreCandidates(self._reader, self._context, own, where=self._where)
        same._words = self._words
        return same

    def lexical(self, query: str, /, *, depth: int) -> Sequence[Hit]:
        """Return the tools that share words with a query."""
        if (query, depth) not in self._words:
            with span("channel bm25"):
                found = self._reader.lexical(query, where=self._where, depth=depth)
            self._words[query, depth] = _hits(found)
        return self._words[query, depth]

    def fuzzy(self, query: str, /, *, depth: int) -> Sequence[Hit]:
        """Return the tools with words similar to a query's."""
        with span("channel fuzzy"):
            return _hits(self._reader.fuzzy(query, where=self._where, depth=depth))

    def nearest(
        self, vector: Sequence[float], /, *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> Sequence[Hit]:
        """Return the tools whose vectors are nearest to a vector."""
        model_id = self._context.vector.model_id if self._context.vector else ""
        with span("channel vector"):
            near = self._reader.nearest(
                vector, model_id=model_id, where=self._where, depth=depth, then=then
            )
        if not self._own:
            return _hits(near)
        found = [*_hits(near), *_nearest(vector, self._own)]
        return sorted(found, key=lambda hit: (-hit.score, hit.id))[:depth]

    def named(self, query: str, /) -> Sequence[Hit]:
        """Return the tools that a query mentions."""
        return _hits(self._reader.named(query, where=self._where))

    def corrections(self, query: str, /) -> Mapping[str, str]:
        """Return the words of a query that no tool has, with their corrections."""
        return self._reader.corrections(query)

    def coverage(
        self, query: str, ids: Sequence[str], /, *, unknown: float = 0.0
    ) -> Mapping[str, float]:
        """Return the share of a query's terms that some tools have."""
        return self._reader.lexical_coverage(query, ids, unknown=unknown)

    def scale(self, query: str, /) -> float:
        """Return the divisor of scores by words."""
        return self._reader.lexical_scale(query)

    @property
    def unfiltered(self) -> StoreCandidates | None:
        """The same for all tools; None if there is no filter."""
        if self._where == _EVERY:
            return None
        return StoreCandidates(self._reader, self._context, self._own, where=_EVERY)

    @property
    def lacks_vectors(self) -> bool:
        """Whether some tools have no vector in the store."""
        return self._context.coverage.vectors < self._context.coverage.tools

    def with_vectors(self, ids: Collection[str], /) -> Collection[str]:
        """Return which of some tools have a vector."""
        vector = self._context.vector
        has: Collection[str] = ()
        if vector is not None:
            length = len(vector.values)
            has = self._reader.with_vectors(ids, model_id=vector.model_id, dimensions=length)
        return {*has, *(id_ for id_ in ids if id_ in self._own)}

    def entries(self, ids: Sequence[str]) -> Mapping[str, ToolEntry]:
        """Return the entries of some tools, and perhaps of others; each is read once."""
        if missing := [id_ for id_ in ids if id_ not in self._entries]:
            self._entries.update(self._reader.entries(missing))
        return self._entries

    def existing(self, ids: Sequence[str], /) -> Collection[str]:
        """Return the ids that have an entry in the same state; others are damaged."""
        return self.entries(ids).keys()

    def traits(self, ids: Sequence[str], /) -> Mapping[str, _Traits]:
        """Return what tells whether tools are equal."""
        entries = self.entries(ids)
        return {id_: _traits(entries[id_]) for id_ in ids if id_ in entries}

    def state(self) -> Hashable:
        """Return the state of the tools."""
        return self._reader.state_of()


def _traits(entry: ToolEntry) -> _Traits:
    types = " ".join(_QUOTED.sub("", parameter.annotation) for parameter in entry.parameters)
    is_plain = _PLAIN_TYPES.issuperset(_WORD.findall(types))
    text = " ".join(entry.description.split())
    return (
        _WORD.findall(entry.description.casefold()),
        [f"{p.name}: {p.annotation} = {p.default}" for p in entry.parameters],
        (text, entry.parameters) if is_plain else None,
    )


def query_of(request: SearchRequest, vector: QueryVector | None) -> Query:
    """Return the query for the channels: the request with its subqueries."""
    if vector is None:
        return Query.of(request.text)
    subqueries = tuple(Query(text, values) for text, values in vector.subqueries)
    return Query(request.text, vector.values, subqueries)


def channel_weights(context: SearchContext, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of a search's channels, with less for the vectors of a few tools."""
    coverage = context.coverage
    # The best of a few embedded tools says little about the best of all tools, unless these few
    # fit best by words: docs/decisions/0017.
    share = coverage.vectors / max(coverage.tools, 1) if context.encode is None else 1.0
    return {
        name: weight * share**2 if name == "vector" else weight for name, weight in weights.items()
    }


def unembedded(
    reader: StoreReader, words: StoreCandidates, query: Query, context: SearchContext
) -> tuple[str, ...]:
    """Return the tools without a vector among the best ones by words, best first."""
    model_id = context.vector.model_id if context.vector else context.wanted
    if model_id is None or context.coverage.vectors >= context.coverage.tools:
        return ()
    # The depths of the ranking, so that it need not ask again.
    depths = [(query, _DEPTH), *((each, _SUBQUERY_DEPTH) for each in query.subqueries)]
    found = [[hit.id for hit in words.lexical(each.text, depth=depth)] for each, depth in depths]
    in_turn = dict.fromkeys(id_ for id_ in chain.from_iterable(zip_longest(*found)) if id_)
    length = None if query.vector is None else len(query.vector)
    has = reader.with_vectors(list(in_turn), model_id=model_id, dimensions=length)
    return tuple(id_ for id_ in in_turn if id_ not in has)[:_MOST]


def _hits(candidates: Sequence[Any]) -> list[Hit]:
    # Our own store returns hundreds of such objects for every search.
    if candidates and isinstance(candidates[0], Hit):
        return cast("list[Hit]", candidates)
    return [Hit(id=found.id, score=found.score) for found in candidates]


class InMemoryEmbeddings:
    """Embeds tools for an answer, and remembers their vectors until they are stored.

    The number and length of texts are limited, to limit the time. Nothing is written: the index
    embeds and stores the same texts later.
    """

    def __init__(self) -> None:
        self._known: dict[str, array[float]] = {}

    def vectors(
        self, entries: Mapping[str, ToolEntry], ids: Sequence[str], encode: Encode
    ) -> dict[str, array[float]]:
        """Return unit vectors of the first tools, by id, within the limits.

        If the model fails there are none; embedding the whole index will report why.
        """
        texts: dict[str, str] = {}
        characters = 0
        for id_ in ids:
            if (entry := entries.get(id_)) is None:
                continue
            text = _text(entry)
            characters += 0 if text in self._known else len(text)
            if characters > _MOST_CHARACTERS:
                break
            texts[id_] = text
        known = {text: vector for text in texts.values() if (vector := self._known.get(text))}
        new = [text for text in dict.fromkeys(texts.values()) if text not in known]
        if new:
            try:
                vectors = encode(new)
            except EmbeddingError:
                return {}
            for text, values in zip(new, vectors, strict=True):
                if length := math.hypot(*values):
                    known[text] = array("f", [value / length for value in values])
            if len(self._known) + len(new) > _REMEMBERED:
                self._known = {}
            self._known |= known
        return {id_: known[text] for id_, text in texts.items() if text in known}


def _nearest(vector: Sequence[float], vectors: Mapping[str, Sequence[float]]) -> list[Hit]:
    """Return each tool with the cosine of its unit vector, in any order."""
    length = math.hypot(*vector) or 1.0
    return [
        Hit(id=id_, score=max(-1.0, min(1.0, sum(map(mul, vector, values)) / length)))
        for id_, values in vectors.items()
    ]


def _text(entry: ToolEntry) -> str:
    names = (parameter.alias or parameter.name for parameter in entry.parameters)
    return entry.id.embedding_text(entry.description, names, tags=entry.tags)
