"""What a ranked tool is worth: how sure it is an answer, and whether it says what another says."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from toolrank import Evidence, Fingerprint, confidence, name_key

from pytools_hybrid.search import MatchType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from toolindex import ToolEntry
    from toolrank import Contribution, RankedHit

__all__ = ["among_all", "fingerprints", "hit_confidence", "match_type"]

# "Get details" says too little to tell that two tools are the same.
_TELLING_WORDS = 5
_WORD = re.compile(r"[^\W_]+")
_WORD_CHANNELS = frozenset({"bm25", "fuzzy"})


def fingerprints(entries: Mapping[str, ToolEntry]) -> Callable[[str], Fingerprint | None]:
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


def among_all(hit: RankedHit, backgrounds: Sequence[float | None]) -> RankedHit:
    """Return a hit of a filtered search with the backgrounds that its vectors have among all tools.

    Args:
        hit: The hit.
        backgrounds: Those of the request and of each part, None where it has no vector.
    """
    explanation = hit.explanation
    part = None if explanation is None else explanation.part
    return replace(
        hit,
        contributions=_against(hit.contributions, backgrounds[0]),
        part_contributions=_against(
            hit.part_contributions, None if part is None else backgrounds[1 + part]
        ),
    )


def hit_confidence(hit: RankedHit, channels: Set[str], scales: Sequence[float]) -> float:
    """Give the confidence in a hit as an answer to the request, or to the part that it answers.

    Args:
        hit: The hit.
        channels: The channels that ran; one that did not give the hit says that it is far off,
            unless it could not judge it.
        scales: What the BM25 scores of the request and of each part are divided by.
    """
    explanation = hit.explanation
    is_exact = explanation is not None and explanation.pinned
    if explanation is not None:
        # Not in place: the caller judges the next hit by the same set.
        channels = channels - frozenset(explanation.unjudged)
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


def match_type(hit: RankedHit) -> MatchType:
    """Return what a hit was found by: for the request, or for the part that brought it up."""
    if hit.explanation is not None and hit.explanation.pinned:
        return MatchType.EXACT
    given = hit.contributions or hit.part_contributions
    by = {each.retriever for each in given}
    if "fuzzy" in by:
        return MatchType.FUZZY
    # The list of the vectors holds every tool, near or far.
    is_near = _contrast(given) > 0
    if "bm25" in by:
        return MatchType.BOTH if is_near else MatchType.WORDS
    return MatchType.MEANING


def _against(
    contributions: Sequence[Contribution], background: float | None
) -> tuple[Contribution, ...]:
    return tuple(
        replace(each, background=background)
        if each.retriever == "vector" and background is not None
        else each
        for each in contributions
    )


def _strength(contributions: Sequence[Contribution], scale: float) -> float:
    found = (each.score for each in contributions if each.retriever in _WORD_CHANNELS)
    return next(found, 0.0) / scale if scale else 0.0


def _contrast(contributions: Sequence[Contribution]) -> float:
    found = (each.score - each.background for each in contributions if each.retriever == "vector")
    return next(found, 0.0)
