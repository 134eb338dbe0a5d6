"""`pytools-hybrid prompt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from toolimport.system import read_regular_file

from pytools_hybrid.cli.app import app
from pytools_hybrid.errors import SettingsError

_MOST_BYTES = 4 << 20


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid prompt
  $ pytools-hybrid prompt --mode basic --template system.md"""
)
def prompt(
    *,
    mode: Annotated[
        Literal["hybrid", "call", "basic"],
        typer.Option(
            help="For an agent that searches and runs code, one that calls tools over MCP, or one "
            "that browses categories."
        ),
    ] = "hybrid",
    template: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Print this file with {tool_discovery_workflow} filled in; other braces are kept.",
        ),
    ] = None,
) -> None:
    """Print what an agent's system prompt should say about finding tools."""
    from pytools_hybrid.serve import prompts

    text = prompts.DEFAULT_TEMPLATE
    if template is not None:
        try:
            text = read_regular_file(template, limit=_MOST_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError("--template", f"{template} cannot be read: {error}") from error
    typer.echo(prompts.render(text, mode), nl=not text.endswith("\n"))
