"""Checks of weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_scoring(weights: Sequence[float], *, common: float, evenness: float) -> None:
    """Refuse arguments that a lexical retriever cannot score with.

    Args:
        weights: One weight a column.
        common: The share of rows above which a term is too common.
        evenness: How much a repeated term counts over a single one.

    Raises:
        RankingArgumentError: A weight is negative or not finite, or a number out of its range.
    """
    for position, weight in enumerate(weights):
        check_weight(weight, of=f"column {position}", argument="weights")
    if not 0 < evenness <= 1:
        raise RankingArgumentError("evenness", f"{evenness} is not above 0 and at most 1")
    if not 0 <= common <= 1:
        raise RankingArgumentError("common", f"{common} is not a share, from 0 to 1")


def check_weight(weight: float, *, of: str, argument: str) -> None:
    """Refuse a weight with which no score could be computed.

    Raises:
        RankingArgumentError: The weight is negative, infinite or not a number.
    """
    if not (math.isfinite(weight) and weight >= 0):
        raise RankingArgumentError(
            argument, f"{of} has weight {weight}, which is not a finite number of zero or more"
        )
