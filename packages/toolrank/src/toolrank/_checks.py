"""Checks of arguments that scores are computed with."""

from __future__ import annotations

import math

from toolrank.errors import RankingArgumentError


def check_scoring(*, common: float, evenness: float) -> None:
    """Refuse arguments that a lexical retriever cannot score with."""
    if not 0 < evenness <= 1:
        raise RankingArgumentError("evenness", f"{evenness} is not above 0 and at most 1")
    if not 0 <= common <= 1:
        raise RankingArgumentError("common", f"{common} is not a share, from 0 to 1")


def check_weight(weight: float, *, of: str, argument: str) -> None:
    """Refuse a weight with which no score could be computed."""
    if not (math.isfinite(weight) and weight >= 0):
        raise RankingArgumentError(
            argument, f"{of} has weight {weight}, which is not a finite number of zero or more"
        )
