"""What the command line shows: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NoReturn, Self

import typer

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from toolindex import SyncReport

    from pytools_hybrid.search import SearchResponse

__all__ = ["Progress", "fail", "print_lines", "print_response", "print_sync", "say"]

_SHOWN_ISSUES = 20


def say(text: str) -> None:
    """Tell the user something that is no result."""
    typer.echo(_printable(text), err=True)


def fail(error: Exception, *, status: int) -> NoReturn:
    """End the program with an error message."""
    typer.secho(f"error: {_printable(str(error))}", err=True, fg=typer.colors.RED)
    sys.exit(status)


def print_lines(text: str) -> None:
    """Print a result of several lines."""
    for line in text.splitlines():
        typer.echo(_printable(line))


def print_response(response: SearchResponse, root: Path, output: str) -> None:
    """Print the tools found, as text or JSON, and the notes on stderr."""
    # Not with the module: help must come at once.
    from pytools_hybrid.results import shown_path, tool_results

    for note in response.notes:
        say(note)
    if output == "json":
        tools = [
            result.model_dump()
            | {
                "summary": found.entry.summary,
                "tags": list(found.entry.tags),
                "confidence": round(found.confidence, 6),
                "duplicates": list(found.duplicates),
            }
            for result, found in zip(tool_results(response, root), response.tools, strict=True)
        ]
        typer.echo(json.dumps(tools, indent=2))
        return
    for found in response.tools:
        score = typer.style(f"{found.score:.2f}", fg=typer.colors.GREEN)
        name = typer.style(_printable(str(found.entry.id)), bold=True)
        typer.echo(f"{score}  {name}")
        typer.echo(f"      {_printable(found.entry.summary)}")
        if found.duplicates:
            typer.echo(f"      the same as {_printable(', '.join(found.duplicates))}")
        typer.echo(typer.style(f"      {_printable(shown_path(root, found.entry.path))}", dim=True))


def print_sync(
    report: SyncReport, embedded: int, database: Path, *, with_issues: bool = False
) -> None:
    """Say what a sync changed and, if asked, which files it left out."""
    tools = report.added + report.updated + report.unchanged
    say(
        f"indexed {tools} tools ({report.added} added, {report.updated} updated, "
        f"{report.removed} removed, {embedded} embedded, {len(report.issues)} files left out) "
        f"in {database}"
    )
    if with_issues and tools == 0:
        say(
            "no tools: looked for mcptools/<category>/<tool>.py and "
            "gentools/<category>/<tool>/api.py with a documented run() or run_parsed()"
        )
    if with_issues:
        for issue in report.issues[:_SHOWN_ISSUES]:
            say(f"  left out {issue.path}: {issue.detail}")
        if len(report.issues) > _SHOWN_ISSUES:
            say(f"  … and {len(report.issues) - _SHOWN_ISSUES} more")


class Progress:
    """A counter on one line of a terminal's stderr; silent elsewhere."""

    def __init__(self, what: str) -> None:
        self.done = 0
        self._what = what
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")

    def __call__(self, done: int, total: int) -> None:
        """Note how many are done."""
        self.done = done
        if sys.stderr.isatty():
            self._shown = True
            sys.stderr.write(f"\r{self._what}: {done} of {total}")
            sys.stderr.flush()


def _printable(text: str) -> str:
    """Keep text of untrusted files from driving the terminal or failing to encode."""
    visible = "".join(char if char.isprintable() else " " for char in text)
    encoding = sys.stdout.encoding or "utf-8"
    return visible.encode(encoding, "backslashreplace").decode(encoding)
