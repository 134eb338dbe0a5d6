"""Duplicate hits, such as one tool in two servers, shown once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolrank._records import RankedHit

_MAX_VARIANTS = 8
"""How many hits of one name a hit is compared with, so that time stays linear."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The words by which two hits are compared.

    Attributes:
        name: The distinct words of its name.
        description: The distinct words of its description.
    """

    name: frozenset[str]
    description: frozenset[str]


@dataclass(slots=True)
class _Kept:
    hit: RankedHit
    description: frozenset[str] = frozenset()
    duplicates: list[str] = field(default_factory=list)


def group_duplicates(
    hits: Sequence[RankedHit],
    *,
    fingerprint: Callable[[str], Fingerprint | None],
    similarity: float = 0.9,
) -> list[RankedHit]:
    """Return hits without duplicates; the first of each group names the others.

    Two hits are duplicates if the words of their names are the same and those of their
    descriptions nearly so, by Jaccard similarity (shared words / all words). To fill a list of n
    hits, rank more than n, group them, and cut.

    Args:
        hits: Best first.
        fingerprint: Gives what a hit is compared by; None keeps it as it is.
        similarity: The least similarity of the descriptions of duplicates.

    Returns:
        The kept hits in their order, with the others' ids added to their `duplicates`.
    """
    kept: list[_Kept] = []
    by_name: dict[frozenset[str], list[_Kept]] = {}
    for hit in hits:
        found = fingerprint(hit.id)
        if found is None:
            kept.append(_Kept(hit))
            continue
        variants = by_name.setdefault(found.name, [])
        for first in variants[:_MAX_VARIANTS]:
            if _jaccard(first.description, found.description) >= similarity:
                first.duplicates += [hit.id, *hit.duplicates]
                break
        else:
            variants.append(_Kept(hit, found.description))
            kept.append(variants[-1])
    return [
        replace(each.hit, duplicates=(*each.hit.duplicates, *each.duplicates))
        if each.duplicates
        else each.hit
        for each in kept
    ]


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    # Two hits without a description differ only in their ids.
    return len(one & other) / union if union else 1.0
