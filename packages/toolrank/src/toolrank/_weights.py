"""What a weight may be."""

from __future__ import annotations

import math

from toolrank.errors import RankingArgumentError

__all__ = ["check_weight"]


def check_weight(weight: float, *, of: str, argument: str) -> None:
    """Refuse a weight with which no score could be computed.

    Raises:
        RankingArgumentError: The weight is negative, infinite or not a number.
    """
    if not (math.isfinite(weight) and weight >= 0):
        raise RankingArgumentError(
            argument, f"{of} has weight {weight}, which is not a finite number of zero or more"
        )
