"""Confidence intervals of means over a small number of queries."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The range in which a mean lies, at the level of confidence asked for.

    Attributes:
        low: Its lower end.
        high: Its upper end.
    """

    low: float
    high: float


def bootstrap_interval(
    values: Sequence[float], *, level: float, resamples: int, seed: int
) -> Interval:
    """Return the percentile bootstrap interval of a mean (Efron & Tibshirani 1993, chapter 13).

    Args:
        values: One value per query, at least one. The same values in the same order give the
            same interval.
        level: The confidence, between 0 and 1.
        resamples: How many samples of the same size are drawn, with replacement.
        seed: Of the draws.
    """
    if not 0 < level < 1:
        raise RankingArgumentError("level", f"{level} is not between 0 and 1; 0.95 is usual")
    if resamples < 1:
        raise RankingArgumentError("resamples", f"{resamples} is below 1; 1000 is usual")
    draw = random.Random(seed).choices  # noqa: S311 - statistics, no secret.
    count = len(values)
    means = sorted(math.fsum(draw(values, k=count)) / count for _ in range(resamples))
    tail = (1 - level) / 2
    return Interval(low=_quantile(means, tail), high=_quantile(means, 1 - tail))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lie, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))
