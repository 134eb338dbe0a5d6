"""The command itself: what it says of itself, and the options that stand before any subcommand."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(
    name="pytools-hybrid",
    help="Find the right Python tools for a request in plain language.",
    epilog="""Begin with:

\b
  $ pytools-hybrid search "merge two pdf files"     find tools
  $ pytools-hybrid import servers.json              make tools of your MCP servers
  $ pytools-hybrid serve                            give them to an agent, over MCP
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
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        typer.echo(f"pytools-hybrid {installed_version('pytools-hybrid')}")
        raise typer.Exit
