"""The output of the command line: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self

import typer

from pytools_hybrid.logs import are_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from rich import progress
    from rich.console import RenderableType
    from toolindex import SyncReport

    from pytools_hybrid.settings import Roots

__all__ = [
    "Progress",
    "counted",
    "fail",
    "first",
    "is_terminal",
    "print_issues",
    "print_json",
    "print_lines",
    "print_rich",
    "print_rows",
    "print_sync",
    "printable",
    "say",
    "shown_size",
    "shows_progress",
    "spinner",
]

_SHOWN_ISSUES = 20
_QUIET_SECONDS = 0.4


def say(text: str) -> None:
    """Show the user something that is not a result."""
    if are_json():
        write_json("INFO", text)
    else:
        typer.echo(printable(text), err=True)


def fail(error: Exception, *, status: int) -> NoReturn:
    """End the program with an error message."""
    if are_json():
        write_json("ERROR", str(error))
    else:
        typer.secho(f"error: {printable(str(error))}", err=True, fg=typer.colors.RED)
    sys.exit(status)


def is_terminal() -> bool:
    """Return whether results go to a person's screen; otherwise they are plain text."""
    return sys.stdout.isatty()


def shows_progress() -> bool:
    """Return whether stderr is a person's screen."""
    return sys.stderr.isatty() and not are_json()


def print_json(value: object) -> None:
    """Print a result for programs."""
    typer.echo(json.dumps(value, indent=2))


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    output: str,
    *,
    line: str,
    columns: Sequence[tuple[str, str, str]] = (),
    value: object = None,
) -> None:
    """Print a result of rows: as JSON, as ids, as a table on a terminal, or as lines.

    Args:
        rows: The values of each row, by name.
        output: `json`, `ids`, or any other word for people.
        line: The format of a line.
        columns: The heading, format and style of each column of the table, the style a format too;
            a row may have values that only these use. By default a terminal gets lines as well.
        value: The value for JSON, if not the rows.
    """
    if output == "json":
        print_json(list(rows) if value is None else value)
    elif output == "ids" or not (columns and is_terminal()):
        form = "{id}" if output == "ids" else line
        for row in rows:
            typer.echo(printable(form.format(**row)).rstrip())
    else:
        from rich.table import Table
        from rich.text import Text

        has_header = any(heading for heading, _, _ in columns)
        table = Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold",
            show_header=has_header,
        )  # fmt: skip
        for heading, _, _ in columns:
            table.add_column(heading, overflow="fold")
        for row in rows:
            cells = (
                Text(printable(form.format(**row)), style=style.format(**row))
                for _, form, style in columns
            )
            table.add_row(*cells)
        print_rich([table])


def print_rich(parts: Iterable[RenderableType]) -> None:
    """Print a result with tables and colours; only on a terminal, because it costs an import."""
    from rich.console import Console

    # Emoji names and addresses in other people's texts stay plain text.
    console = Console(highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)


def print_lines(text: str) -> None:
    """Print a result of several lines."""
    for line in text.splitlines():
        typer.echo(printable(line))


def print_sync(
    report: SyncReport,
    database: str,
    *,
    embedded: int,
    seconds: float | None = None,
) -> None:
    """Report what a sync of all files changed."""
    tools = report.added + report.updated + report.unchanged
    took = "" if seconds is None else f" in {seconds:.1f} s"
    say(
        f"indexed {counted(tools, 'tool')}{took} ({report.added} added, {report.updated} updated, "
        f"{report.removed} removed, {embedded} embedded, {counted(len(report.issues), 'file')} "
        f"left out) in {database}"
    )


def first(texts: Sequence[str], most: int) -> list[str]:
    """Return the first of some texts, and how many more there are."""
    more = len(texts) - most
    return [*texts[:most], *[f"… {more} more"] * (more > 0)]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless there is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_issues(report: SyncReport, roots: Roots) -> None:
    """List files that were left out, with the reasons."""
    texts = [f"left out {roots.short_path(it.path)}: {it.detail}" for it in report.issues]
    for text in first(texts, _SHOWN_ISSUES):
        say(f"  {text}")


@contextmanager
def spinner(text: str) -> Generator[Callable[[str], object]]:
    """Show that work goes on, if stderr is a terminal; the block gets a function that says how."""
    if not shows_progress():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(text))) as status:
        yield lambda now: status.update(Text(printable(now)))


class Progress:
    """Shows a bar on stderr for each stage of long work, if that is a terminal."""

    def __init__(self) -> None:
        self._stage = ""
        self._begun = time.monotonic()
        self._bar: progress.Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_stage()

    def _end_stage(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        """Show what is being done, how much of it is done, and the total if that is known."""
        if stage != self._stage:
            self._end_stage()
            self._stage, self._begun = stage, time.monotonic()
        # Most work ends before a bar could be read, and a bar costs an import.
        if not shows_progress() or time.monotonic() < self._begun + _QUIET_SECONDS:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task(self._stage, total=total, of="")
            self._bar.start()
        of = "" if total is None else f" of {total}"
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, of=of)


def _bar() -> progress.Progress:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:.0f}{task.fields[of]}"),
        progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def printable(text: str) -> str:
    """Keep text from untrusted files from controlling the terminal or failing to encode."""
    visible = "".join(char if char.isprintable() else " " for char in text)
    encoding = sys.stdout.encoding or "utf-8"
    return visible.encode(encoding, "backslashreplace").decode(encoding)


def shown_size(size: int) -> str:
    """Return a number of bytes for people."""
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / 1024:.0f} KiB"
