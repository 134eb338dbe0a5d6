"""`pytools-hybrid doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli._options import Database, Device, Model, Output, Root
from pytools_hybrid.cli.app import app, common
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import exit_now
from pytools_hybrid.terminal import is_terminal, print_json, printable, shows_progress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pytools_hybrid.reports.doctor import Finding
    from pytools_hybrid.settings import Settings

_NAME_WIDTH = 11
_MODEL_WIDTH = 38
_COLORS = {
    "ok": typer.colors.GREEN,
    "warning": typer.colors.YELLOW,
    "failed": typer.colors.RED,
    "works": typer.colors.GREEN,
    "lacks": typer.colors.YELLOW,
}
_STATUS_WIDTH = max(map(len, _COLORS))


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid doctor
  $ pytools-hybrid doctor --root .freeact/generated --output json
  $ pytools-hybrid doctor --models

Exits with 1 if a check failed; warnings are not failures. It changes nothing: the index is opened
read-only, and the server uses an empty one in a temporary folder."""
)
def doctor(
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    device: Device = None,
    models: Annotated[
        bool,
        typer.Option(
            "--models",
            help="List the embedding models that could be used here, and what they need.",
        ),
    ] = False,
    call: Annotated[
        bool,
        typer.Option(
            "--call",
            help="With --models: call providers' models too. This costs money, but little: each "
            "call embeds four words.",
        ),
    ] = False,
    output: Output = "text",
) -> None:
    """Find out what does not work here, and how to fix it.

    Checks the installation, the settings, the trees of tools and the index, calls the embedding
    model, checks whether the system can watch the trees, and starts the MCP server.
    """
    if call and not models:
        raise SettingsError("--call", "requires --models")
    if models:
        show_models(call=call, output=output)
        return
    from pytools_hybrid.reports.doctor import Status, checks, diagnose

    flags = {
        "root": root,
        "database": db,
        "embedding_model": embedding_model,
        "device": device,
    }
    findings: list[Finding] = []
    for check in checks(_settings(flags), settings_file=common.get("config")):
        with _turning(f"checking: {check.name}"):
            findings += diagnose([check])
        if output == "text":
            found = findings[-1]
            _print_line(found.status.value, found.check, found.message, found.remedy)
    if output == "json":
        print_json([_as_json(finding) for finding in findings])
    else:
        _print_sum(findings)
    status = int(any(finding.status is Status.FAILED for finding in findings))
    if any(finding.is_overdue for finding in findings):
        # An ordinary exit would wait for the thread of a check that hangs.
        sys.stdout.flush()
        exit_now(status)
    raise typer.Exit(status)


def show_models(*, call: bool, output: str) -> None:
    """Print which embedding models could be used."""
    from pytools_hybrid.reports.models import model_choices

    choices = model_choices(call=call)
    if output == "json":
        print_json([asdict(choice) for choice in choices])
        return
    while True:
        with _turning("looking for models"):
            choice = next(choices, None)
        if choice is None:
            break
        status = "works" if choice.works else "lacks"
        _print_line(status, choice.setting, choice.message, choice.remedy, width=_MODEL_WIDTH)
    typer.echo("\nUse one with --embedding-model NAME, or PYTOOLS_EMBEDDING_MODEL=NAME.")


def _settings(flags: Mapping[str, object]) -> Settings | SettingsError:
    from pytools_hybrid.settings import Settings

    try:
        return Settings.from_flags(flags, file=common.get("config"))
    except SettingsError as error:
        return error


def _as_json(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "status": finding.status.value,
        "message": finding.message,
        "remedy": finding.remedy,
        "seconds": round(finding.seconds, 3),
    }


def _turning(doing: str) -> AbstractContextManager[object]:
    if not (is_terminal() and shows_progress()):
        from contextlib import nullcontext

        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{doing} …")


def _print_line(
    status: str, name: str, message: str, remedy: str | None, *, width: int = _NAME_WIDTH
) -> None:
    label = typer.style(f"{status:<{_STATUS_WIDTH}}", fg=_COLORS[status], bold=status != "ok")
    title = typer.style(f"{name:<{width}}", bold=True)
    indent = _STATUS_WIDTH + 2 + width + 2
    first, *others = _lines(printable(message), indent)
    typer.echo(f"{label}  {title}  {first}")
    for line in others:
        typer.echo(" " * indent + line)
    if remedy:
        # Not wrapped, so that it can be copied.
        typer.echo(" " * indent + typer.style(f"→ {printable(remedy)}", fg=typer.colors.CYAN))


def _lines(text: str, indent: int) -> list[str]:
    """Wrap a text to the width of the terminal, or keep its lines if there is no terminal."""
    if not is_terminal():
        return [text]
    from shutil import get_terminal_size
    from textwrap import wrap

    width = max(20, get_terminal_size().columns - indent)
    return wrap(text, width, break_on_hyphens=False) or [""]


def _print_sum(findings: list[Finding]) -> None:
    from collections import Counter

    counts = Counter(finding.status.value for finding in findings)
    if set(counts) == {"ok"}:
        typer.echo("\nAll is well.")
        return
    told = [f"{counts[name]} {name}" for name in ("failed", "warning", "ok") if counts[name]]
    typer.echo(f"\n{', '.join(told)}.")
