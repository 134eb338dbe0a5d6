"""Which configuration is best, and whether that is more than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytools_hybrid.evaluation._figures import DEPTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrank.metrics import Difference

    from pytools_hybrid.evaluation._figures import Figures

__all__ = ["BEST_BY", "Best", "best"]

BEST_BY = f"ndcg@{DEPTH}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best of several configurations, compared with the next.

    Attributes:
        winner: The best.
        runner_up: The next.
        difference: By how much the best is above the next, query by query.
    """

    winner: Figures
    runner_up: Figures
    difference: Difference

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the interval of the difference lies above 0."""
        return self.difference.interval.low > 0

    def __str__(self) -> str:
        name, value = self.winner.configuration.name, self.winner.evaluation.mean(BEST_BY)
        other, interval = self.runner_up.configuration.name, self.difference.interval
        chosen = self.winner.configuration.selected_by
        how = (
            f"select it with {' '.join(f'{key}={setting}' for key, setting in chosen.items())}"
            if chosen
            else "it is what a search does with your settings"
        )
        if self.difference.mean == 0:
            return f"{name} ({BEST_BY} {value:.3f}) is as good as any: {how}. {other} has the same."
        verdict = (
            "more than the choice of queries explains"
            if self.is_beyond_chance
            else "which holds 0: these queries cannot tell the two apart for sure"
        )
        return (
            f"{name} is best here ({BEST_BY} {value:.3f}): {how}. It is {self.difference.mean:.3f} "
            f"above {other}; the 95 % interval of that difference is {interval.low:+.3f} to "
            f"{interval.high:+.3f}, {verdict}."
        )


def best(figures: Sequence[Figures]) -> Best | None:
    """Find the best by NDCG@10; None where there is nothing to compare.

    Of equals, the one that searches use already comes first: nobody changes settings for nothing.
    """
    if len(figures) < 2:
        return None
    winner, runner_up, *_ = sorted(
        figures,
        key=lambda each: (-each.evaluation.mean(BEST_BY), bool(each.configuration.selected_by)),
    )
    return Best(
        winner=winner,
        runner_up=runner_up,
        difference=winner.evaluation.difference(runner_up.evaluation, BEST_BY),
    )
