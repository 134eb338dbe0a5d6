"""Arguments: checks, and parameters of statements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable


def identifier(name: str, *, argument: str) -> str:
    """Return a table or column name if it is a plain identifier.

    Names cannot be bound as parameters, so only ASCII letters, digits and `_` are let through.
    """
    if not (name.isascii() and name.isidentifier()):
        raise RankingArgumentError(argument, f"{name!r} is not a plain SQL identifier")
    return name


def json_array(values: Iterable[object]) -> str:
    """Return values as one parameter of a statement, for `json_each`."""
    # Imported where it is used, because it takes a tenth of the time of the whole package.
    import json

    return json.dumps([*values])


def check_weight(weight: float, *, of: str, argument: str) -> None:
    """Refuse a weight with which no score could be computed."""
    if not (math.isfinite(weight) and weight >= 0):
        raise RankingArgumentError(
            argument, f"{of} has weight {weight}, which is not a finite number of zero or more"
        )
