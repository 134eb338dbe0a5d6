"""Tools that have no vector yet: which of them a request is about, and vectors for one answer."""

from __future__ import annotations

import math
from array import array
from itertools import chain, zip_longest
from operator import mul
from typing import TYPE_CHECKING

from toolembed import EmbeddingError
from toolrank import Hit
from toolscan import embedding_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolindex import StoreReader, ToolEntry

    Encode = Callable[[Sequence[str]], Sequence[Sequence[float]]]

# 0.3 to 0.6 ms of CPU a text of 150 to 300 characters, on two busy cores.
_MOST = 64
_MOST_CHARACTERS = 30_000
# A kilobyte each.
_REMEMBERED = 4_096


def unembedded(
    reader: StoreReader,
    found: Sequence[Sequence[str]],
    *,
    model_id: str,
    dimensions: int | None,
) -> tuple[str, ...]:
    """Return the tools without a vector among those that fit best by words, in that order.

    Args:
        reader: The generation of the index.
        found: The ids that were found for the request, and for each of its parts, best first.
        model_id: The model whose vectors are meant.
        dimensions: Their length; None for the one that was put to use last.
    """
    in_turn = dict.fromkeys(id_ for id_ in chain.from_iterable(zip_longest(*found)) if id_)
    has = reader.with_vectors(list(in_turn), model_id=model_id, dimensions=dimensions)
    return tuple(id_ for id_ in in_turn if id_ not in has)[:_MOST]


class Newcomers:
    """Embeds tools for one answer, and remembers their vectors until they are stored.

    What this takes is bounded by the number and the length of the texts. Nothing is written: the
    same texts are stored when their turn comes.
    """

    def __init__(self) -> None:
        self._known: dict[str, array[float]] = {}

    def vectors(
        self, entries: Mapping[str, ToolEntry], ids: Sequence[str], encode: Encode
    ) -> dict[str, array[float]]:
        """Return the vectors, of length 1, of the first tools by id, as far as the bound allows.

        There are none where the model fails: whoever embeds all tools will say why.
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


def nearest(vector: Sequence[float], vectors: Mapping[str, Sequence[float]]) -> list[Hit]:
    """Return each tool with the cosine of its vector, of length 1, in any order."""
    length = math.hypot(*vector) or 1.0
    return [
        Hit(id=id_, score=max(-1.0, min(1.0, sum(map(mul, vector, values)) / length)))
        for id_, values in vectors.items()
    ]


def _text(entry: ToolEntry) -> str:
    names = (parameter.alias or parameter.name for parameter in entry.parameters)
    return embedding_text(entry.id, entry.description, names, tags=entry.tags)
