"""Whether a hit answers the request at all, as one number for every set of channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolrank._bm25 import TermStatistics

__all__ = [
    "EXACT_CONFIDENCE",
    "RECOMMENDED_CONFIDENCE",
    "Evidence",
    "confidence",
    "lexical_strength",
]

EXACT_CONFIDENCE = 0.99
"""The confidence in a hit whose name is what was asked for; none is higher."""

RECOMMENDED_CONFIDENCE = 0.5
"""Below this it is doubtful whether a hit answers: at most 3 % of the right answers to everyday
requests lie below it, by words and by words and meaning together; by meaning alone some 10 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for a hit being an answer; None where a channel did not run.

    Attributes:
        strength: `lexical_strength` of the hit's BM25 score; 0 where it shares no word.
        contrast: The hit's cosine less the background of the vector list (`Contribution.score`
            and `.background`); 0 where the list does not hold it.
        is_exact: Whether the hit's name is what was asked for.
    """

    strength: float | None = None
    contrast: float | None = None
    is_exact: bool = False


# The intercept and the coefficients for each set of features, as printed by
# benchmarks/quality/fit_confidence.py, which counts as many requests without an answer as with
# one. Most have one: where there are words the intercept is 0.8 higher, so that
# RECOMMENDED_CONFIDENCE is where it is. Vectors alone claim too much among a few dozen tools.
_MODELS: Mapping[frozenset[str], tuple[float, Mapping[str, float]]] = MappingProxyType(
    {
        frozenset({"strength"}): (-2.28, {"strength": 4.34}),
        frozenset({"contrast"}): (-2.44, {"contrast": 10.45}),
        frozenset({"strength", "contrast"}): (-2.28, {"strength": 2.04, "contrast": 8.04}),
    }
)


def confidence(evidence: Evidence) -> float:
    """Give how sure it is that a hit answers the request, in [0, 1].

    A logistic model of the evidence, one for words alone, one for vectors alone and one for
    both, so that a threshold means about the same for each of them. Without any evidence it is 0.
    """
    if evidence.is_exact:
        return EXACT_CONFIDENCE
    features = {
        name: value
        for name in ("strength", "contrast")
        if (value := getattr(evidence, name)) is not None and math.isfinite(value)
    }
    if frozenset(features) not in _MODELS:
        return 0.0
    intercept, coefficients = _MODELS[frozenset(features)]
    logit = intercept + sum(coefficients[name] * value for name, value in features.items())
    # Beyond these there is nothing to tell, and exp() would overflow.
    return min(EXACT_CONFIDENCE, 1 / (1 + math.exp(-min(max(logit, -30.0), 30.0))))


def lexical_strength(score: float, statistics: Sequence[TermStatistics]) -> float:
    """Make BM25 scores of different requests and tables comparable.

    A score grows with the number of the request's terms and with the IDF that a rare term has in
    the table: it is divided by √terms · log(1 + rows).

    Args:
        score: A hit's BM25 score.
        statistics: What `BM25Retriever.statistics` tells of the request.
    """
    if not statistics:
        return 0.0
    # idf = log((rows + 1) / (n + 0.5)), whichever term is looked at.
    rows = statistics[0].idf + math.log(statistics[0].documents + 0.5)
    return score / (math.sqrt(len(statistics)) * rows) if rows > 0 else 0.0
