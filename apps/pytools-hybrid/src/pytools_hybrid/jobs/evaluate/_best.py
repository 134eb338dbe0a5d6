"""Which configuration to use, and whether it is significantly better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytools_hybrid.jobs.evaluate._figures import DEPTH, Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrank.metrics import Difference


BEST_BY = f"ndcg@{DEPTH}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The configuration to use, compared with its closest rival.

    Attributes:
        chosen: What to use: a change from the current configuration only if it is significantly
            better.
        other: The configuration that it is compared with.
        difference: The mean advantage of `chosen` over `other`, query by query; negative if `other`
            is better, but not significantly.
    """

    chosen: Figures
    other: Figures
    difference: Difference

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the whole interval of the difference is above 0."""
        return self.difference.interval.low > 0

    def __str__(self) -> str:
        name, value = self.chosen.configuration.name, self.chosen.evaluation.mean(BEST_BY)
        other, mean = self.other.configuration.name, self.difference.mean
        low, high = self.difference.interval.low, self.difference.interval.high
        already = "it is what searches use with your settings"
        chosen = self.chosen.configuration.selected_by
        if mean == 0 and not chosen:
            return (
                f"{name} ({BEST_BY} {value:.3f}) is as good as any: {already}. "
                f"{other} has the same."
            )
        if mean < 0:
            return (
                f"Keep {name} ({BEST_BY} {value:.3f}): {already}. {other} is {-mean:.3f} above it, "
                f"but the 95 % interval of that difference is {-high:+.3f} to {-low:+.3f}, which "
                "includes 0: these queries cannot tell the two apart."
            )
        how = (
            f"select it with {' '.join(f'{key}={setting}' for key, setting in chosen.items())}"
            if chosen
            else already
        )
        verdict = (
            "more than the choice of queries explains"
            if self.is_beyond_chance
            else "which includes 0: these queries cannot tell the two apart"
        )
        return (
            f"{name} is best here ({BEST_BY} {value:.3f}): {how}. It is {mean:.3f} above {other}; "
            f"the 95 % interval of that difference is {low:+.3f} to {high:+.3f}, {verdict}."
        )


def best(figures: Sequence[Figures]) -> Best | None:
    """Choose a configuration by NDCG@10; return None if there is nothing to compare.

    Another configuration is only preferred to the current one if the whole interval of their
    difference is above 0: an improvement that may be chance is no reason to change settings.
    """
    if len(figures) < 2:
        return None
    first, second, *_ = sorted(
        figures,
        key=lambda each: (-each.evaluation.mean(BEST_BY), bool(each.configuration.selected_by)),
    )
    current = next((each for each in figures if not each.configuration.selected_by), None)
    if current is None:
        return _compared(first, second)
    if first is current:
        return _compared(current, second)
    change = _compared(first, current)
    return change if change.is_beyond_chance else _compared(current, first)


def _compared(chosen: Figures, other: Figures) -> Best:
    difference = chosen.evaluation.difference(other.evaluation, BEST_BY)
    return Best(chosen=chosen, other=other, difference=difference)
