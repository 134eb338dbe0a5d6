"""Priors, which do not depend on the request's words: groups of tools, and past use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

USAGE_BOUND = 0.1
"""The largest share of a score that past use can add or take away."""

_HALF_CONFIDENT_AT = 10


def usage_prior(successes: int, failures: int) -> float:
    """Return the factor by which past use changes a score: 1 ± `USAGE_BOUND` at most.

    It is 1 + 0.1 · (2 · rate - 1) · n / (n + 10), where n counts the outcomes and the rate is
    that of success by Laplace's rule of succession, (successes + 1) / (n + 2). Without outcomes
    it is 1, and few outcomes say little.

    Raises:
        RankingArgumentError: A count below zero.
    """
    for name, count in (("successes", successes), ("failures", failures)):
        if count < 0:
            raise RankingArgumentError(name, f"{count} is below 0")
    count = successes + failures
    rate = (successes + 1) / (count + 2)
    return 1 + USAGE_BOUND * (2 * rate - 1) * count / (count + _HALF_CONFIDENT_AT)


def bounded_usage(factors: Mapping[str, float], id_: str) -> float:
    """Return a candidate's factor: 1.0 if it has none, never further from 1 than the bound."""
    factor = factors.get(id_, 1.0)
    # This order turns NaN into the lowest factor.
    return min(1 + USAGE_BOUND, max(1 - USAGE_BOUND, factor))


def best_in_group(scores: Mapping[str, float], group: Callable[[str], str]) -> dict[str, float]:
    """Return the best score of each candidate's group, by the candidate's id."""
    groups = [*map(group, scores)]
    best: dict[str, float] = {}
    for name, score in zip(groups, scores.values(), strict=True):
        if score > best.get(name, -1.0):
            best[name] = score
    return dict(zip(scores, map(best.__getitem__, groups), strict=True))


def lifted(
    scores: Mapping[str, float], best: Mapping[str, float], *, weight: float
) -> dict[str, float]:
    """Raise scores by the best of their groups: (score + weight · best) / (1 + weight).

    A request for one tool of a server often means the server, and a request mentions only once what
    its descriptions have in common. The best of a group keeps its score.
    """
    # Computed as a step towards the best, so that rounding never exceeds it.
    share = weight / (1 + weight)
    return {id_: score + (best[id_] - score) * share for id_, score in scores.items()}
