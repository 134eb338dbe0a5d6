"""Plotting the figures: recall by depth, and latency, for each configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytools_hybrid.jobs.evaluate._figures import Figures


def require_plotting() -> None:
    """Check that the plotting library is installed, before anything is computed for a plot."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            "--plot",
            f"matplotlib cannot be imported ({error}); {install_command('pytools-hybrid[plot]')}",
        ) from error


def write_plot(
    path: Path, figures: Sequence[Figures], *, recall_at: Sequence[int], title: str
) -> None:
    """Write a PNG with two panels: recall@k by k, and the latency of searches."""
    # pyplot would keep figures in memory, and look for a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    # Its other options have no types.
    figure.suptitle(title)  # pyright: ignore[reportUnknownMemberType]
    recall, latency = figure.subplots(1, 2)
    names = [each.configuration.name for each in figures]
    for each, marker in zip(figures, "os^D", strict=False):
        values = [each.evaluation.mean(f"recall@{k}") for k in recall_at]
        recall.plot(recall_at, values, marker=marker, label=each.configuration.name)
    recall.set(xlabel="k", ylabel="recall@k", xticks=recall_at, ylim=(0, 1.02))
    recall.legend(loc="lower right")
    recall.grid(alpha=0.3)
    places = range(len(figures))
    latency.barh(
        [place + 0.2 for place in places],
        [each.latency.p95 for each in figures],
        height=0.4,
        label="p95",
        color="tab:orange",
    )
    latency.barh(
        [place - 0.2 for place in places],
        [each.latency.p50 for each in figures],
        height=0.4,
        label="p50",
        color="tab:blue",
    )
    latency.set(xlabel="milliseconds for a search, with the query's embedding", yticks=places)
    latency.set_yticklabels(names)
    latency.invert_yaxis()
    latency.legend()
    figure.savefig(path, format="png", dpi=120)  # pyright: ignore[reportUnknownMemberType]
