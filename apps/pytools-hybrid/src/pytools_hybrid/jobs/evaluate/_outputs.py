"""The output files of an evaluation, checked before it starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PLOT_SUFFIX = ".png"


def check_outputs(
    *, queries: Path, database: Path | None, runs: Iterable[Path], plot: Path | None
) -> None:
    """Check that every result can be written, and replaces neither an input nor another result."""
    taken = [(queries, "holds the queries")]
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
