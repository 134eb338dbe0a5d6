"""The output files of an evaluation: checked before it starts, and TREC runs written after it."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from toolrank import Hit
from toolrank.metrics import write_run

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pytools_hybrid.jobs.evaluate._configurations import Configuration
    from pytools_hybrid.jobs.evaluate._figures import Figures

# trec_eval reads scores in single precision, in which two scores this far apart still differ.
_STEP = 1e-6
_PLOT_SUFFIX = ".png"


def run_paths(path: Path, compared: Sequence[Configuration]) -> dict[str, Path]:
    """Return each configuration's file: `runs.trec`, or `runs.hybrid-rrf.trec` if several."""
    # An empty path means the current folder.
    if not path.name or path.is_dir():
        raise SettingsError("--run", f"{path} is a folder; name a file in it")
    if len(compared) == 1:
        return {compared[0].name: path}
    return {each.name: path.with_stem(f"{path.stem}.{each.slug}") for each in compared}


def write_runs(paths: Mapping[str, Path], figures: Iterable[Figures]) -> None:
    """Write the rankings of each configuration to its file."""
    for each in figures:
        run = {id_: _falling(hits) for id_, hits in each.answers.items()}
        tag = f"pytools-hybrid-{each.configuration.slug}"
        write_run(paths[each.configuration.name], run, tag=tag)


def _falling(hits: Iterable[Hit]) -> list[Hit]:
    """Make the scores strictly decreasing, because readers of runs sort by score alone."""
    falling: list[Hit] = []
    before = math.inf
    for hit in hits:
        before = min(hit.score, before - _STEP)
        falling.append(Hit(id=hit.id, score=before))
    return falling


def check_outputs(
    *, queries: Path, database: Path | None, runs: Iterable[Path], plot: Path | None
) -> None:
    """Check that every output can be written, and replaces neither an input nor another output."""
    taken = [(queries, "contains the queries")]
    if database is not None:
        _check_free("--db", database, taken)
        taken.append((database, "is the index of --db"))
    for file in runs:
        _check_place("--run", file)
        _check_free("--run", file, taken)
        taken.append((file, "is a file of --run"))
    if plot is not None:
        _check_place("--plot", plot)
        _check_free("--plot", plot, taken)
        if plot.suffix.lower() != _PLOT_SUFFIX:
            raise SettingsError(
                "--plot", f"{plot} is saved as PNG; give it a name that ends in {_PLOT_SUFFIX}"
            )


def _check_place(flag: str, file: Path) -> None:
    if not file.parent.is_dir():
        raise SettingsError(flag, f"{file.parent} does not exist; create the folder first")
    if file.is_dir():
        raise SettingsError(flag, f"{file} is a folder; name a file in it")


def _check_free(flag: str, file: Path, taken: Iterable[tuple[Path, str]]) -> None:
    for other, role in taken:
        if _is_same(file, other):
            raise SettingsError(flag, f"{file} {role}; name another file")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        # One of them does not exist yet.
        return os.path.realpath(one) == os.path.realpath(other)
