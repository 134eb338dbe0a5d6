"""Judging a ranked tool: how likely it is an answer, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolembed.providers import ACCURATE
from toolrank import (
    Calibration,
    Evidence,
    confidence,
    name_share,
    query_terms,
)

from pytools_hybrid.search._types import MatchType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from toolindex import StoreReader
    from toolrank import Contribution, Query, RankedHit

_DEFAULT = Calibration()
_ACCURATE = Calibration(alone=(-1.27, 10.83), with_words=(-4.26, 3.83, 1.0, 9.19), unknown=0.35)


def calibration_of(model_id: str) -> Calibration:
    """Return the calibration of a model's similarities, or the default if it has none."""
    return _ACCURATE if model_id.partition(":")[0] == ACCURATE else _DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request, or a part of one, with its words' evidence about the tools found.

    Attributes:
        text: The text of it.
        terms: How many terms it has.
        coverage: The share of the terms that a tool has, by id; None if words were not searched.
        scale: The divisor of spelling scores; None if spelling was not searched.
    """

    text: str
    terms: int
    coverage: Mapping[str, float] | None
    scale: float | None

    @classmethod
    def of(
        cls, text: str, ids: Sequence[str], channels: Set[str], reader: StoreReader, unknown: float
    ) -> _Asked:
        """Read the evidence of the channels that ran from the store."""
        return cls(
            text=text,
            terms=len(query_terms(text)),
            coverage=reader.lexical_coverage(text, ids, unknown=unknown)
            if "bm25" in channels
            else None,
            scale=reader.lexical_scale(text) if "fuzzy" in channels else None,
        )


def confidences(
    hits: Sequence[RankedHit],
    query: Query,
    channels: Set[str],
    reader: StoreReader,
    *,
    model_id: str,
) -> list[float]:
    """Return the confidence that each hit answers the request, or a part of it.

    Args:
        hits: The hits.
        query: The request and its parts.
        channels: The channels that ran; a hit that a channel did not return counts as far off for
            it, unless the channel could not judge it.
        reader: The state of the store that was searched.
        model_id: The model whose vectors were searched, or an empty string.
    """
    calibration = calibration_of(model_id)
    unknown = calibration.unknown if "vector" in channels else 0.0
    of_parts: list[list[str]] = [[] for _ in query.parts]
    for hit in hits:
        if hit.explanation is not None and hit.explanation.part is not None:
            of_parts[hit.explanation.part].append(hit.id)
    asked = [
        _Asked.of(each.text, ids, channels, reader, unknown)
        for each, ids in zip(
            (query, *query.parts), ([hit.id for hit in hits], *of_parts), strict=True
        )
    ]
    return [_confidence(hit, channels, asked, calibration) for hit in hits]


def match_type(hit: RankedHit) -> MatchType:
    """Return how a hit was found, by the request or by the part that found it."""
    if hit.explanation is not None and hit.explanation.pinned:
        return MatchType.EXACT
    given = hit.contributions or hit.part_contributions
    by = {each.retriever for each in given}
    if "fuzzy" in by:
        return MatchType.FUZZY
    if "bm25" in by:
        return MatchType.BOTH if _is_near(given) else MatchType.WORDS
    return MatchType.MEANING


def _confidence(
    hit: RankedHit, channels: Set[str], asked: Sequence[_Asked], calibration: Calibration
) -> float:
    explanation = hit.explanation
    is_exact = explanation is not None and explanation.pinned
    if explanation is not None:
        # Not in place: the caller uses the same set for the next hit.
        channels = channels - frozenset(explanation.unjudged)
    has_meaning = "vector" in channels
    name = hit.id.rpartition(":")[2]
    given = [(hit.contributions, asked[0])]
    if explanation is not None and explanation.part is not None:
        given.append((hit.part_contributions, asked[1 + explanation.part]))
    return max(
        confidence(
            Evidence(
                coverage=None if words.coverage is None else words.coverage.get(hit.id, 0.0),
                terms=words.terms,
                # Only words count, and they are cheap.
                named=0.0 if has_meaning else name_share(words.text, name),
                strength=None if words.scale is None else _strength(contributions, words.scale),
                contrast=_contrast(contributions) if has_meaning else None,
                is_exact=is_exact,
            ),
            calibration=calibration,
        )
        for contributions, words in given
    )


def _strength(contributions: Sequence[Contribution], scale: float) -> float:
    found = (each.score for each in contributions if each.retriever == "fuzzy")
    return next(found, 0.0) / scale if scale else 0.0


def _contrast(contributions: Sequence[Contribution]) -> float:
    # Among two or three tools, rivals may be negative, which counts as zero.
    found = (
        each.score - max(each.rivals, 0.0) for each in contributions if each.retriever == "vector"
    )
    return next(found, 0.0)


def _is_near(contributions: Sequence[Contribution]) -> bool:
    # The vector channel lists every tool, near or far.
    return any(
        each.retriever == "vector" and each.score > each.background for each in contributions
    )
