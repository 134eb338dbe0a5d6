"""The probability that a hit answers the request at all, comparable for any set of channels."""

from __future__ import annotations

import math
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

EXACT_CONFIDENCE = 0.99
"""The confidence in a hit whose name is what was asked for; none is higher."""

RECOMMENDED_CONFIDENCE = 0.5
"""Below this it is doubtful whether a hit answers: some 3 % of the right answers to everyday
requests lie below it; by meaning alone some 10 %."""

# Beyond this many terms, further matches no longer make an answer more likely.
_MOST_TERMS = 12


class Evidence(NamedTuple):
    """The evidence that a hit is an answer; None if a channel did not run.

    Attributes:
        coverage: The share of the request's terms that the hit has, by their IDF, as
            `BM25Retriever.coverage` returns it.
        terms: How many terms the request has. It is used with `coverage`: half of a long request
            is stronger evidence than half of a short one.
        name_coverage: The share of the words of the hit's name that the request has, as
            `name_share` returns it. It is used with `coverage` if only words were searched.
        strength: `lexical_strength` of the hit's score; 0 if it shares no word. It is for a
            retriever without coverage, and is then used alone.
        contrast: The hit's cosine less that of its rivals in the vector list
            (`Contribution.score` and `.rivals`); 0 where the list does not hold it.
        is_exact: Whether the hit's name is what was asked for.
    """

    coverage: float | None = None
    terms: int = 0
    name_coverage: float = 0.0
    strength: float | None = None
    contrast: float | None = None
    is_exact: bool = False


class Calibration(NamedTuple):
    """What the vectors of a model say about a hit: the coefficients of two logistic models.

    The defaults are those of toolembed's static vectors. Cosines of another model are spread
    differently: benchmarks/quality/fit_confidence.py fits these to it.

    Attributes:
        alone: The intercept and the coefficient of `contrast`, where only vectors were searched.
        with_words: The intercept and the coefficients of `coverage`, `terms` and `contrast`.
        unknown: How much of a term that no row has `coverage` must count as covered
            (`BM25Retriever.coverage`), for `with_words`.
    """

    alone: tuple[float, float] = (-1.92, 11.67)
    with_words: tuple[float, float, float, float] = (-5.23, 3.4, 1.51, 11.19)
    unknown: float = 0.0

    @classmethod
    def accurate(cls) -> Calibration:
        """Return the calibration of toolembed's accurate model."""
        return cls(alone=(-1.27, 10.83), with_words=(-4.26, 3.83, 1.0, 9.19), unknown=0.35)


_STATIC = Calibration()

# The coefficients for words (`coverage`, `terms`, `name_coverage`), and for `strength` alone.
_WORDS = (-3.33, 3.73, 1.25, 1.18)
_LIKENESS = (-1.68, 3.47)


def confidence(evidence: Evidence, *, calibration: Calibration = _STATIC) -> float:
    """Return the probability that a hit answers the request, in [0, 1].

    A logistic model of the evidence, one for words alone, one for vectors alone and one for
    both, so that a threshold means about the same for each of them. Without evidence it is 0.

    Args:
        evidence: The evidence for the hit.
        calibration: The coefficients of the model whose vectors gave the contrast.
    """
    if evidence.is_exact:
        return EXACT_CONFIDENCE
    coverage, strength, contrast = map(
        _known, (evidence.coverage, evidence.strength, evidence.contrast)
    )
    terms = math.log1p(min(max(evidence.terms, 0), _MOST_TERMS))
    match coverage, strength, contrast:
        case float(), None, None:
            name_coverage = min(max(evidence.name_coverage, 0.0), 1.0)
            logit = _logit(_WORDS, coverage, terms, name_coverage)
        case float(), None, float():
            logit = _logit(calibration.with_words, coverage, terms, contrast)
        case None, None, float():
            logit = _logit(calibration.alone, contrast)
        case None, float(), None:
            logit = _logit(_LIKENESS, strength)
        case _:
            return 0.0
    # Beyond these the result no longer changes, and exp() would overflow.
    return min(EXACT_CONFIDENCE, 1 / (1 + math.exp(-min(max(logit, -30.0), 30.0))))


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _logit(model: Sequence[float], *features: float) -> float:
    intercept, *coefficients = model
    return intercept + math.fsum(map(mul, coefficients, features))
