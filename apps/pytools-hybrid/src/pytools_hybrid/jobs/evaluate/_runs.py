"""Rankings as TREC run files, one for each configuration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toolrank import Hit
from toolrank.metrics import write_run

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pytools_hybrid.jobs.evaluate._configurations import Configuration
    from pytools_hybrid.jobs.evaluate._figures import Figures

# trec_eval reads single precision, in which scores in [0, 1] this far apart still differ.
_STEP = 1e-6


def run_paths(path: Path, compared: Sequence[Configuration]) -> dict[str, Path]:
    """Return each configuration's file: `runs.trec`, or `runs.hybrid-rrf.trec` if several."""
    # An empty path is the current folder.
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
