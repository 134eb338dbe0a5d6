"""Checks of arguments that scores are computed with."""

from __future__ import annotations

import math

from toolrank.errors import RankingArgumentError


def check_scoring(*, max_df: float, damping: float) -> None:
    """Refuse arguments that a lexical retriever cannot score with."""
    if not 0 < damping <= 1:
        raise RankingArgumentError("damping", f"{damping} is not above 0 and at most 1")
    if not 0 <= max_df <= 1:
        raise RankingArgumentError("max_df", f"{max_df} is not a share, from 0 to 1")


def check_weight(weight: float, *, of: str, argument: str) -> None:
    """Refuse a weight with which no score could be computed."""
    if not (math.isfinite(weight) and weight >= 0):
        raise RankingArgumentError(
            argument, f"{of} has weight {weight}, which is not a finite number of zero or more"
        )
