"""Aliases of settings and arguments: the only place that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

ALIASES: Mapping[str, tuple[str, ...]] = {
    "top_k": ("limit",),
    "min_confidence": ("threshold",),
    "dimensions": ("embedding_dim",),
    "db_path": ("database",),
    "database_path": ("database",),
    "model": ("embedding_model",),
    "alpha": ("bm25_weight", "vec_weight"),
}
"""The settings of each alias; `alpha` is the weight of meaning, and 1 - `alpha` that of words."""


class AliasError(ValueError):
    """A setting and its alias have different values, or an alias has an invalid one."""

    def __init__(self, alias: str, message: str) -> None:
        super().__init__(message)
        self.alias = alias


def resolved(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one source (flags, the environment or a file) by their real names."""
    values = {name: value for name, value in given.items() if name not in ALIASES}
    for alias, names in ALIASES.items():
        if alias not in given:
            continue
        meant = _shares(given[alias]) if alias == "alpha" else {names[0]: given[alias]}
        for name, value in meant.items():
            if name in values and str(values[name]) != str(value):
                raise _conflict(alias, name)
            values[name] = value
    return values


def renamed(given: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return the arguments of a call by their real names."""
    values = dict(given)
    for alias, (name, *_) in ALIASES.items():
        for other, own in ((alias, name), (name, alias)):
            if other in values and other not in fields and own in fields:
                value = values.pop(other)
                if own in values and values[own] != value:
                    raise _conflict(other, own)
                values[own] = value
    return values


def _conflict(alias: str, name: str) -> AliasError:
    return AliasError(alias, f"is another name for {name}, and they differ; give one of them")


def _shares(alpha: object) -> dict[str, float]:
    try:
        share = float(alpha) if isinstance(alpha, str | int | float) else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise AliasError("alpha", "give a number from 0 (words alone) to 1 (meaning alone)")
    return {"bm25_weight": round(1 - share, 12), "vec_weight": share}
