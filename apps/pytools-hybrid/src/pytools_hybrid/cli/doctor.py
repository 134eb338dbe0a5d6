"""`pytools-hybrid doctor`: what does not work here, and which models could be used."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import exit_now

if TYPE_CHECKING:
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
    "doctor",
    settings="root database embedding_model",
    epilog="""Examples:

\b
  $ pytools-hybrid doctor
  $ pytools-hybrid doctor --root .freeact/generated --output json
  $ pytools-hybrid doctor --models

Exits with 1 if a check failed; warnings are not failures. It changes nothing: the index is opened
read-only, and the server uses an empty one in a temporary folder. A provider that is called embeds
four words for each model.""",
)
def doctor(
    flags: app.Flags,
    *,
    models: Annotated[
        bool, typer.Option("--models", help="List embedding models, and what they need.")
    ] = False,
    call_providers: Annotated[
        bool,
        typer.Option("--call-providers", help="With --models: call them; this costs money."),
    ] = False,
    output: app.Output = "text",
) -> None:
    """Check the installation, the settings, the folders of tools and the index.

    Also call the embedding model, check whether the system can watch the folders, and start the
    MCP server.
    """
    if call_providers and not models:
        raise SettingsError("--call-providers", "requires --models")
    if models:
        _list_models(call_providers=call_providers, output=output)
        return
    from pytools_hybrid.reports.doctor import Status, checks, diagnose
    from pytools_hybrid.settings import Settings

    file = app.common.get("config")
    settings: Settings | SettingsError
    try:
        settings = Settings.from_flags(flags, file=file)
    except SettingsError as error:
        settings = error
    findings: list[Finding] = []
    for check in checks(settings, settings_file=file):
        with terminal.spinner(f"checking: {check.name} …"):
            findings += diagnose([check])
        if output == "text":
            found = findings[-1]
            _print_line(found.status.value, found.check, found.message, found.remedy)
    if output == "json":
        terminal.print_json(
            [
                {
                    "check": it.check,
                    "status": it.status.value,
                    "message": it.message,
                    "remedy": it.remedy,
                    "seconds": round(it.seconds, 3),
                }
                for it in findings
            ]
        )
    else:
        _print_sum(findings)
    status = int(any(finding.status is Status.FAILED for finding in findings))
    if any(finding.is_overdue for finding in findings):
        # An ordinary exit would wait for the thread of a check that hangs.
        sys.stdout.flush()
        exit_now(status)
    raise typer.Exit(status)


def _list_models(*, call_providers: bool, output: str) -> None:
    from pytools_hybrid.reports.models import model_choices

    choices = model_choices(call=call_providers)
    if output == "json":
        terminal.print_json([asdict(choice) for choice in choices])
        return
    while True:
        with terminal.spinner("looking for models …"):
            choice = next(choices, None)
        if choice is None:
            break
        status = "works" if choice.works else "lacks"
        _print_line(status, choice.setting, choice.message, choice.remedy, width=_MODEL_WIDTH)
    typer.echo("\nUse one with --model NAME, or PYTOOLS_EMBEDDING_MODEL=NAME.")


def _print_line(
    status: str, name: str, message: str, remedy: str | None, *, width: int = _NAME_WIDTH
) -> None:
    label = typer.style(f"{status:<{_STATUS_WIDTH}}", fg=_COLORS[status], bold=status != "ok")
    title = typer.style(f"{name:<{width}}", bold=True)
    indent = _STATUS_WIDTH + 2 + width + 2
    first, *others = _wrapped(terminal.printable(message), indent)
    typer.echo(f"{label}  {title}  {first}")
    for line in others:
        typer.echo(" " * indent + line)
    if remedy:
        # Not wrapped, so that it can be copied.
        typer.echo(
            " " * indent + typer.style(f"→ {terminal.printable(remedy)}", fg=typer.colors.CYAN)
        )


def _wrapped(text: str, indent: int) -> list[str]:
    """Wrap a text to the width of the terminal, or keep its lines if there is no terminal."""
    if not terminal.is_terminal():
        return [text]
    from shutil import get_terminal_size
    from textwrap import wrap

    width = max(20, get_terminal_size().columns - indent)
    return wrap(text, width, break_on_hyphens=False) or [""]


def _print_sum(findings: list[Finding]) -> None:
    from collections import Counter

    counts = Counter(finding.status.value for finding in findings)
    failed, warnings, passed = (counts[it] for it in ("failed", "warning", "ok"))
    if not failed + warnings:
        typer.echo("\nAll is well.")
        return
    parts = ((failed, f"{failed} failed"), (warnings, terminal.counted(warnings, "warning")))
    told = [text for number, text in (*parts, (passed, f"{passed} passed")) if number]
    typer.echo(f"\n{', '.join(told)}.")
