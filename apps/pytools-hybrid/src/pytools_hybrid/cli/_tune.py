"""`pytools-hybrid tune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Database, Model, Root
from pytools_hybrid.cli._report import Since, usage_records
from pytools_hybrid.cli._run import existing_roots, run, settings_from
from pytools_hybrid.errors import PytoolsError, SettingsError
from pytools_hybrid.terminal import print_lines, printable, say

if TYPE_CHECKING:
    from pytools_hybrid.learn.evaluate import EvaluationQuery
    from pytools_hybrid.settings import Settings

_SHOWN = 10


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid tune --queries queries.jsonl
  $ pytools-hybrid tune --since 30
  $ pytools-hybrid tune --undo

Nothing leaves this machine, and the file contains no requests. It maps one model's query
vectors. Stored vectors do not change, and running servers use the new file at once.
PYTOOLS_TUNING names another file; PYTOOLS_TUNING=none turns tuning off."""
)
def tune(
    *,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            help='JSON lines with "id", "query" and "gold", as for eval. [default: the usage '
            "record: searches that were followed by a successful use of a tool]",
        ),
    ] = None,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    since: Since = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Break ndcg@10 down by a key of the queries' lines."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file to write, or to remove. [env: PYTOOLS_TUNING; default: beside the "
            "index]",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write the file even if searches may be no better.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Use the recorded requests without asking.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Remove the file, which undoes tuning.")
    ] = False,
) -> None:
    """Learn from your own requests, so that searches find your tools better.

    Prints how good searches are before and after; each request is tested on what was learned from
    the others. Nothing is written unless the improvement is statistically significant.
    """
    from pytools_hybrid.index import has_numpy
    from pytools_hybrid.learn.evaluate import read_queries

    settings = settings_from(root=root, database=db, embedding_model=embedding_model)
    roots = existing_roots(settings)
    path = out or settings.resolved_tuning(roots)
    if path is None:
        raise SettingsError("PYTOOLS_TUNING", "it is 'none'; name a file with --out")
    if out is not None or settings.tuning is not None:
        _check_place(path)
    if undo:
        from pytools_hybrid.search import remove_tuning

        removed = remove_tuning(path)
        say(f"removed {path}" if removed else f"nothing to undo: {path} does not exist")
        return
    if queries is None:
        asked = _recorded(settings, since, yes=yes)
    elif since is not None:
        raise SettingsError("--since", "selects from the usage record; leave out --queries")
    else:
        asked = read_queries(queries, by=by)
    if not has_numpy():
        from pytools_hybrid.installation import install_command

        command = install_command("numpy", again=True)
        raise PytoolsError(f"numpy cannot be imported; reinstall it: {command}")
    from pytools_hybrid.learn import tune as tuning
    from pytools_hybrid.learn.figures import tables
    from pytools_hybrid.search import write_tuning

    outcome = run(tuning.tune(settings, roots, asked, by=by))
    print_lines(f"{tables(outcome.report)}\n\n{outcome}")
    if not outcome.is_better and not force:
        say(
            "nothing was written, because the improvement may be due to chance. Try more requests, "
            "or write the file anyway with --force"
        )
        raise typer.Exit(1)
    write_tuning(path, outcome.tuning)
    say(f"wrote {path}")
    if path != settings.resolved_tuning(roots):
        say(f"searches use it with PYTOOLS_TUNING={path}")


def _check_place(path: Path) -> None:
    from pytools_hybrid.search import TuningFile

    if path.exists() and TuningFile(path).current()[0] is None:
        raise SettingsError("--out", f"{path} is not a tuning file; name a new file")


def _recorded(settings: Settings, since: float | None, *, yes: bool) -> list[EvaluationQuery]:
    from pytools_hybrid.learn.tune import recorded

    found = recorded(*usage_records(settings, since))
    for each in found[:_SHOWN]:
        say(printable(f"  {each.text} → {', '.join(each.gold)}"))
    more = len(found) - _SHOWN
    if more > 0:
        say(f"  … and {more} more")
    say(f"{len(found)} recorded requests were followed by a successful use of a tool")
    if found and not yes:
        if not sys.stdin.isatty():
            raise SettingsError("--yes", "required if no one can confirm")
        typer.confirm("Learn from them?", abort=True, err=True)
    return found
