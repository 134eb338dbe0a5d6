"""The figures of the index benchmark: measuring, printing, and comparing sizes."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Figure", "Times", "best", "growth", "overview", "table", "timed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value, with its floor and its aim.

    Attributes:
        what: What was measured.
        value: The value.
        unit: Its unit.
        floor: The part of it that is unavoidable, measured in the same run; empty for none.
        least: The floor's value.
        aim: The highest acceptable value, or ratio to the floor if there is one.
        grows: Whether the value is a cost that should grow no faster than the tree.
    """

    what: str
    value: float
    unit: str
    floor: str = ""
    least: float = math.nan
    aim: float | None = None
    grows: bool = False

    @property
    def ratio(self) -> float:
        """The ratio to the floor."""
        return self.value / self.least


@dataclass(frozen=True, slots=True)
class Times:
    """The wall and CPU seconds of several runs of one action."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, action: Callable[[], object]) -> None:
        """Run the action once."""
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)

    def figures(
        self, what: str, floor: str = "", least: Times | None = None, aim: float | None = None
    ) -> list[Figure]:
        """Return p50, p95 and the mean CPU time, in milliseconds."""
        other = least or Times([math.nan], [math.nan])
        return [
            Figure(
                what=f"{what}, {name}",
                value=1000 * of(self),
                unit="ms",
                floor=floor,
                least=1000 * of(other),
                aim=aim if name == "p50" else None,
                grows=name == "CPU",
            )
            for name, of in _SUMMARIES.items()
        ]


def _percentile(times: Sequence[float], percent: int) -> float:
    return sorted(times)[min(len(times) * percent // 100, len(times) - 1)]


_SUMMARIES: dict[str, Callable[[Times], float]] = {
    "p50": lambda times: _percentile(times.wall, 50),
    "p95": lambda times: _percentile(times.wall, 95),
    "CPU": lambda times: statistics.fmean(times.cpu),
}


def timed(actions: Iterable[Callable[[], object]]) -> Times:
    """Run each action once."""
    times = Times()
    for action in actions:
        times.add(action)
    return times


def best(repeat: int, *actions: Callable[[], object]) -> list[float]:
    """Return the least CPU time of each action; they alternate, to run under the same load."""
    times = [Times() for _ in actions]
    for _ in range(repeat):
        for each, action in zip(times, actions, strict=True):
            gc.collect()
            each.add(action)
    return [min(each.cpu) for each in times]


def table(title: str, figures: Iterable[Figure]) -> str:
    """Return figures as a Markdown table."""
    lines = [f"| {title} | | floor | | ratio | aim |", "|---|--:|---|--:|--:|--:|"]
    for figure in figures:
        value = f"{_number(figure.value)} {figure.unit}"
        if figure.floor:
            held = f"{figure.floor} | {_number(figure.least)} | {figure.ratio:.2f}"
        else:
            held = " | | "
        lines.append(f"| {figure.what} | {value} | {held} | {_aim(figure)} |")
    return "\n".join(lines)


def overview(results: dict[int, list[Figure]]) -> str:
    """Return the figures of all sizes side by side, each with its ratio to its floor."""
    sizes = sorted(results)
    lines = [
        "| (× floor) | " + " | ".join(f"{size:,}" for size in sizes) + " | floor | aim |",
        "|---|" + "--:|" * len(sizes) + "---|--:|",
    ]
    for row in zip(*(results[size] for size in sizes), strict=True):
        shown = [
            f"{_number(figure.value)} {figure.unit}".rstrip()
            + (f" ({figure.ratio:.2f} ×)" if figure.floor else "")
            for figure in row
        ]
        aims = [_aim(figure) for figure in row if figure.aim is not None]
        cells = [row[0].what, *shown, row[0].floor, "".join(aims[:1])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def growth(results: dict[int, list[Figure]]) -> str:
    """Return the growth of costs between sizes: the exponent of the tree's size, 1 for linear."""
    sizes = sorted(results)
    steps = list(pairwise(sizes))
    lines = [
        "| exponent of growth | " + " | ".join(f"{a:,} → {b:,}" for a, b in steps) + " |",
        "|---|" + "--:|" * len(steps),
    ]
    for position, figure in enumerate(results[sizes[0]]):
        if figure.grows:
            values = [results[size][position].value for size in sizes]
            shown = [
                f"{math.log(values[i + 1] / values[i]) / math.log(b / a):.2f}"
                for i, (a, b) in enumerate(steps)
            ]
            lines.append(f"| {figure.what} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    return f"≤ {figure.aim:g} ×" if figure.floor else f"≤ {figure.aim:g} {figure.unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
