"""What each retriever contributed to a hit, and the rivals in its list."""

from __future__ import annotations

from itertools import islice
from math import fsum
from typing import TYPE_CHECKING

from toolrank._records import Contribution

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from toolrank._records import Hit

PART_DEPTH = 50
"""The most candidates taken from a retriever for a part of a request: deeper ones change nothing
that was measured, and every part costs. Hits are compared with no deeper ones either."""

_RIVALS = 5


def contributions_of(
    rankings: Mapping[str, Sequence[Hit]],
    unfiltered: Mapping[str, Sequence[Hit]],
    ids: Collection[str],
    group: Callable[[str], str] | None,
) -> dict[str, list[Contribution]]:
    """Return what each list contributed to some hits, by their ids.

    Args:
        rankings: The lists by retriever name.
        unfiltered: Those of them that were looked up without a filter as well.
        ids: The hits.
        group: Gives a hit's group by its id.
    """
    found: dict[str, list[Contribution]] = {id_: [] for id_ in ids}
    for name, hits in rankings.items():
        usual = unfiltered.get(name, hits)[:PART_DEPTH]
        behind = [hit.score for hit in usual[10:] or usual[1:][-1:]]
        background = fsum(behind) / len(behind) if behind else 0.0
        rivals: dict[str, float] = {}
        for rank, hit in enumerate(hits, start=1):
            if hit.id not in found:
                continue
            own = "" if group is None else group(hit.id)
            if own not in rivals:
                rivals[own] = _rivals(usual, own, group, background)
            found[hit.id].append(
                Contribution(
                    retriever=name,
                    rank=rank,
                    score=hit.score,
                    background=background,
                    rivals=rivals[own],
                )
            )
    return found


def _rivals(
    hits: Iterable[Hit], own: str, group: Callable[[str], str] | None, background: float
) -> float:
    if group is None:
        return background
    others = [hit.score for hit in islice((hit for hit in hits if group(hit.id) != own), _RIVALS)]
    return fsum(others) / len(others) if others else background
