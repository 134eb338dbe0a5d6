"""The channels of a search: words, meaning, and the meaning of tools that have no vector yet."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, zip_longest
from operator import mul
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from toolembed import EmbeddingError
from toolindex import ToolFilter
from toolrank import PART_DEPTH, Channel, Hit, Query, split_request
from toolscan import embedding_text

from pytools_hybrid.tracing import span

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from toolindex import Candidate, Coverage, StoreReader, ToolEntry

    from pytools_hybrid.search._query_vectors import Encode, QueryVector
    from pytools_hybrid.search._types import SearchRequest

# Each text of 150 to 300 characters takes 0.3 to 0.6 ms of CPU on two busy cores.
_MOST = 64
_MOST_CHARACTERS = 30_000
# A kilobyte per vector.
_REMEMBERED = 4_096
_DEPTH = 100
_EVERY = ToolFilter()
_SPANS = {name: f"channel {name}" for name in ("bm25", "fuzzy", "vector")}


class Asked(NamedTuple):
    """A request with everything that its answer depends on, except the state of the store.

    Attributes:
        request: The request.
        vector: The vector of the request; None to search without.
        wanted: The model whose vectors should be searched, or None.
        coverage: How many tools there are, and how many have vectors.
        encode: As for `Searcher.answer`.
    """

    request: SearchRequest
    vector: QueryVector | None
    wanted: str | None
    coverage: Coverage
    encode: Encode | None


class _AsksWords(Protocol):
    """A method of a store's reader that retrieves by words."""

    def __call__(self, query: str, *, where: ToolFilter, depth: int) -> Sequence[Candidate]: ...


@dataclass(frozen=True, slots=True)
class Words:
    """A ranker channel with a store's candidates by words."""

    name: str
    ask: _AsksWords
    where: ToolFilter

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        with span(_SPANS[self.name]):
            return _hits(self.ask(query.text, where=self.where, depth=depth))


@dataclass(frozen=True, slots=True)
class Meaning:
    """A ranker channel with a store's candidates by the vectors of a model.

    Some tools may have vectors here that are not stored yet.
    """

    reader: StoreReader
    where: ToolFilter
    model_id: str
    own: Mapping[str, Sequence[float]] = field(default_factory=dict[str, "Sequence[float]"])

    @property
    def name(self) -> str:
        return "vector"

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        if query.vector is None:
            return []
        with span(_SPANS[self.name]):
            found = _hits(
                self.reader.nearest(
                    query.vector,
                    model_id=self.model_id,
                    where=self.where,
                    depth=depth,
                    then=[part.vector for part in query.parts if part.vector is not None],
                )
            )
        if not self.own:
            return found
        found = [*found, *_nearest(query.vector, self.own)]
        return sorted(found, key=lambda hit: (-hit.score, hit.id))[:depth]


def query_of(request: SearchRequest, vector: QueryVector | None) -> Query:
    """Return the query for the channels: the request with its parts."""
    if vector is None:
        parts = tuple(Query(text=part) for part in split_request(request.text))
        return Query(text=request.text, parts=parts)
    parts = tuple(Query(text=text, vector=values) for text, values in vector.parts)
    return Query(text=request.text, vector=vector.values, parts=parts)


def channels_of(
    reader: StoreReader,
    asked: Asked,
    words: Words,
    own: Mapping[str, Sequence[float]],
    weights: Mapping[str, float],
) -> list[Channel]:
    """Return the channels of a search.

    Args:
        reader: The state of the store.
        asked: The request.
        words: The channel of words.
        own: Vectors by id, for tools that have none in the store yet.
        weights: The weight of each channel, by name.
    """
    request, vector, coverage = asked.request, asked.vector, asked.coverage
    channels: list[Channel] = []
    if "bm25" in weights:
        channels.append(Channel(words, weights["bm25"]))
    if "fuzzy" in weights:
        alike = Words("fuzzy", reader.fuzzy, request.where)
        channels.append(Channel(alike, weights["fuzzy"]))
    if "vector" in weights and vector is not None:
        meaning = Meaning(reader, request.where, vector.model_id, own)
        length = len(vector.values)
        # The best of a few embedded tools says little about the best of all tools, unless these few
        # fit best by words: docs/decisions/0017.
        share = coverage.vectors / max(coverage.tools, 1) if asked.encode is None else 1.0
        weight = weights["vector"] * share**2
        judges = (
            partial(_judged, reader, own, model_id=vector.model_id, dimensions=length)
            if coverage.vectors < coverage.tools
            else None
        )
        # Of the few tools that pass a filter, all may be good, or none.
        everything = replace(meaning, where=_EVERY)
        unfiltered = None if meaning == everything else everything
        channels.append(
            Channel(meaning, weight, absent="last", judges=judges, unfiltered=unfiltered)
        )
    return channels


def unembedded(reader: StoreReader, words: Words, query: Query, asked: Asked) -> tuple[str, ...]:
    """Return the tools without a vector among the best ones by words, best first."""
    model_id = asked.vector.model_id if asked.vector else asked.wanted
    if model_id is None or asked.coverage.vectors >= asked.coverage.tools:
        return ()
    # The ranker's default depth, so that it need not ask again.
    depths = [(query, _DEPTH), *((part, PART_DEPTH) for part in query.parts)]
    found = [[hit.id for hit in words.retrieve(each, depth=depth)] for each, depth in depths]
    in_turn = dict.fromkeys(id_ for id_ in chain.from_iterable(zip_longest(*found)) if id_)
    length = None if query.vector is None else len(query.vector)
    has = reader.with_vectors(list(in_turn), model_id=model_id, dimensions=length)
    return tuple(id_ for id_ in in_turn if id_ not in has)[:_MOST]


def _hits(candidates: Sequence[Candidate]) -> list[Hit]:
    # Our own store returns hundreds of such objects for every search.
    if candidates and isinstance(candidates[0], Hit):
        return cast("list[Hit]", candidates)
    return [Hit(id=found.id, score=found.score) for found in candidates]


def _judged(
    reader: StoreReader,
    own: Mapping[str, Sequence[float]],
    ids: Collection[str],
    *,
    model_id: str,
    dimensions: int,
) -> set[str]:
    has = reader.with_vectors(ids, model_id=model_id, dimensions=dimensions)
    return {*has, *(id_ for id_ in ids if id_ in own)}


class Newcomers:
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
    return embedding_text(entry.id, entry.description, names, tags=entry.tags)
