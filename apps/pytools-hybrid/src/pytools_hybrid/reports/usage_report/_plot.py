"""Plotting the usage record: searches, their outcomes and latencies, day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytools_hybrid.reports.usage_report._figures import UsageReport


def write_plot(path: Path, report: UsageReport) -> None:
    """Write a PNG with three panels, by day."""
    # pyplot would keep figures in memory, and look for a display.
    from matplotlib.figure import Figure

    days = report.days
    places = range(len(days))
    figure = Figure(figsize=(9, 8), layout="constrained")
    searches, rates, latency = figure.subplots(3, 1, sharex=True)
    nothing = [day.without_results for day in days]
    found = [day.searches - day.without_results for day in days]
    searches.bar(places, found, label="with results", color="tab:blue")
    searches.bar(places, nothing, bottom=found, label="without", color="tab:orange")
    searches.set(ylabel="searches", title="Usage of pytools-hybrid")
    rates.plot(places, [_percent(day.share_judged) for day in days], "o-", label="with an outcome")
    rates.plot(
        places,
        [_percent(day.acceptance_rate) for day in days],
        "s-",
        label="first result succeeded",
    )
    rates.set(ylabel="%", ylim=(-2, 102))
    latency.plot(places, [day.latency_p50_ms for day in days], "o-", label="p50")
    latency.plot(places, [day.latency_p95_ms for day in days], "s-", label="p95")
    latency.set(ylabel="milliseconds", xlabel="day (UTC)")
    latency.set_ylim(bottom=0)
    # Every day has a bar, but only as many days as fit have a label.
    step = max(1, len(days) // 12)
    latency.set_xticks(places[::step], [str(day.day) for day in days][::step], rotation=30)
    for panel in (searches, rates, latency):
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        panel.grid(alpha=0.3)
    # Its other options have no types.
    figure.savefig(path, format="png", dpi=120)  # pyright: ignore[reportUnknownMemberType]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
