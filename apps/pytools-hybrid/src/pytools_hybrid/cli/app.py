"""The top-level command: its help, and the options before the subcommand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pytools_hybrid.logs import use_format

common: dict[str, Any] = {}
"""The options before the subcommand, by name."""

app: typer.Typer = typer.Typer(
    name="pytools-hybrid",
    help="Find the right Python tools for a request in plain language.",
    epilog="""Begin with:

\b
  $ pytools-hybrid search "merge two pdf files"     find tools
  $ pytools-hybrid import servers.json              turn your MCP servers into tools
  $ pytools-hybrid serve                            serve them to an agent, over MCP
  $ pytools-hybrid doctor                           find out what does not work

Every setting is a flag, a variable PYTOOLS_… or a line of pytools.toml: see
pytools-hybrid config.""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The settings file. [env: PYTOOLS_CONFIG; default: the nearest pytools.toml, or "
            "pyproject.toml with [tool.pytools], in this folder or its parents]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            help="DEBUG, INFO, WARNING or ERROR. [env: PYTOOLS_LOG_LEVEL; default: WARNING]",
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option(
            "--log-format",
            help="text: lines for people. json: each line of the log is an object. "
            "[env: PYTOOLS_LOG_FORMAT; default: text]",
        ),
    ] = None,
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        typer.echo(f"pytools-hybrid {installed_version('pytools-hybrid')}")
        raise typer.Exit
    common.update(config=config, log_level=log_level, log_format=log_format)
    if log_format is not None:
        use_format(log_format)
