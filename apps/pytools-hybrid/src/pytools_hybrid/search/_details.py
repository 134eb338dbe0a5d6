"""From ranked ids to found tools: near-identical ones are merged, and details are read last."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from toolrank import Fingerprint, RankedHit, group_duplicates, name_key

from pytools_hybrid.search._confidence import confidences, match_type
from pytools_hybrid.search._types import FoundTool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from toolindex import StoreReader, ToolEntry, ToolOutcomes
    from toolrank import Query, Ranking

# "Get details" says too little to tell that two tools are the same.
_TELLING_WORDS = 5
# One word in forty may differ.
_SAME = 0.95
_WORD = re.compile(r"[^\W_]+")


def tool_key(id_: str) -> str:
    """Return the letters and digits of a tool's name, to compare it with others."""
    return name_key(id_.rpartition(":")[2])


class Details:
    """Reads what a search needs to know about the tools it has ranked, from one state of the store.

    Args:
        reader: The state.
        query: The request with its parts.
        channels: The channels that ran.
        model_id: The model whose vectors were searched, or an empty string.
        outcomes: The outcomes of using tools, by id.
    """

    def __init__(
        self,
        reader: StoreReader,
        query: Query,
        channels: Set[str],
        model_id: str,
        outcomes: Mapping[str, ToolOutcomes],
    ) -> None:
        self._reader = reader
        self._query = query
        self._channels = channels
        self._model_id = model_id
        self._outcomes = outcomes
        self._entries: dict[str, ToolEntry] = {}

    def distinct(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the ids to show, each with the ids of nearly identical tools that are left out.

        Only tools with the same name are compared, if their descriptions and parameters say enough.
        """
        keys = {id_: tool_key(id_) for id_ in ids}
        counts = Counter(keys.values())
        entries = self._read([id_ for id_, key in keys.items() if counts[key] > 1])

        def fingerprint(id_: str) -> Fingerprint | None:
            if (entry := entries.get(id_)) is None:
                return None
            words = _WORD.findall(entry.description.casefold())
            if len(words) < _TELLING_WORDS:
                return None
            parameters = (f"{p.name}: {p.annotation}" for p in entry.parameters)
            return Fingerprint(frozenset({keys[id_], *parameters}), frozenset(words))

        bare = [RankedHit(id=id_, score=0.0, contributions=()) for id_ in ids]
        kept = group_duplicates(bare, fingerprint=fingerprint, similarity=_SAME)
        return {hit.id: hit.duplicates for hit in kept}

    def tools(
        self, ranking: Ranking, distinct: Mapping[str, tuple[str, ...]], *, at_once: int
    ) -> Iterator[FoundTool]:
        """Yield ranked tools; the score of the first is its confidence.

        Args:
            ranking: What was ranked.
            distinct: The tools and those that they stand for, as `distinct` returns them.
            at_once: How many to read at once.
        """
        unit: float | None = None
        rest = iter(distinct)
        while some := list(islice(rest, at_once)):
            entries = self._read(some)
            # An id that is not among the entries of the same state is damaged.
            known = ranking.hits([id_ for id_ in some if id_ in entries])
            sureness = confidences(
                known, self._query, self._channels, self._reader, model_id=self._model_id
            )
            for hit, confidence in zip(known, sureness, strict=True):
                if unit is None:
                    # The best fused score is 1 for every request: alone it only orders an answer.
                    unit = confidence / hit.score if hit.score else 0.0
                yield FoundTool(
                    entry=entries[hit.id],
                    score=hit.score * unit,
                    match_type=match_type(hit),
                    confidence=confidence,
                    duplicates=(*hit.duplicates, *distinct[hit.id]),
                    contributions=hit.contributions,
                    explanation=hit.explanation,
                    outcomes=self._outcomes.get(hit.id),
                )

    def _read(self, ids: Sequence[str]) -> dict[str, ToolEntry]:
        if missing := [id_ for id_ in ids if id_ not in self._entries]:
            self._entries.update(self._reader.entries(missing))
        return self._entries
