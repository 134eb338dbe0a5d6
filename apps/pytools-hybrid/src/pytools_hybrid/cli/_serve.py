"""`pytools-hybrid serve`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Alpha, Database, Exclude, Include, Model, Rerank, Root
from pytools_hybrid.cli._run import say_tree, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytools_hybrid.settings import Roots, Settings


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid serve --root .freeact/generated
  $ pytools-hybrid serve --transport http --port 8000
  $ PYTOOLS_TOKEN=… pytools-hybrid serve --transport http --host 0.0.0.0"""
)
def serve(
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    tools: Annotated[
        Literal["search", "call", "basic", "all"] | None,
        typer.Option(
            help="search: search_tools, describe_tool and report_outcome. call: call_tool as "
            "well, for clients that cannot run code. basic: list_categories and list_tools, which "
            "need no index. all: search and basic. [env: PYTOOLS_TOOLS; default: search]"
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="With --tools call: list this tool by its own name as well. [env: PYTOOLS_PIN, "
            "separated by commas]",
        ),
    ] = None,
    read_only: Annotated[
        bool | None,
        typer.Option(
            "--read-only",
            help="With --tools call: only call tools that are annotated as read-only. "
            "[env: PYTOOLS_READ_ONLY]",
        ),
    ] = None,
    run_python: Annotated[
        bool | None,
        typer.Option(
            "--run-python",
            help="With --tools call: also run Python tools, in a separate process. [env: "
            "PYTOOLS_RUN_PYTHON]",
        ),
    ] = None,
    confirm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="With --tools call: ask the user before calling tools whose id or name matches, "
            "such as 'delete_*'; if the client cannot ask, the call is refused. [env: "
            "PYTOOLS_CONFIRM, separated by commas]",
        ),
    ] = None,
    alpha: Alpha = None,
    rerank: Rerank = None,
    include: Include = None,
    exclude: Exclude = None,
    transport: Annotated[
        Literal["stdio", "http"] | None,
        typer.Option(
            help="Over stdin and stdout for one client, or over HTTP for many, with MCP and a JSON "
            "API. [env: PYTOOLS_TRANSPORT; default: stdio]"
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="The address to listen on; any but a loopback address requires a token. "
            "[env: PYTOOLS_HOST; default: 127.0.0.1]"
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="The port; 0 selects a free one. [env: PYTOOLS_PORT; default: 8000]"),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token that clients send as 'Authorization: Bearer TOKEN'. Prefer the "
            "variable: other users on this machine can see flags. [env: PYTOOLS_TOKEN]"
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="Another host name that clients may use for the server. [env: "
            "PYTOOLS_ALLOWED_HOSTS, separated by commas]",
        ),
    ] = None,
    console: Annotated[
        bool | None,
        typer.Option(
            "--console/--no-console",
            help="Over HTTP: serve the console at /, where people search and inspect tools. "
            "[env: PYTOOLS_CONSOLE; default: console]",
        ),
    ] = None,
) -> None:
    """Serve the tools to agents, over MCP.

    The index follows the files while the server runs. Over stdio, only the protocol is written to
    stdout. Ctrl-C, SIGTERM or closing stdin stops it.
    """
    for_http = {"host": host, "port": port, "token": token, "allowed-host": allowed_host}
    settings = settings_from(
        is_server=True,
        root=root,
        database=db,
        embedding_model=embedding_model,
        tools=tools,
        pin=pin,
        read_only=read_only,
        run_python=run_python,
        confirm=confirm,
        alpha=alpha,
        rerank_model=rerank,
        include=include,
        exclude=exclude,
        transport=transport,
        host=host,
        port=port,
        token=token,
        allowed_hosts=allowed_host,
        console=console,
    )
    given = [f"--{name}" for name, value in for_http.items() if value]
    if given and settings.transport == "stdio":
        raise SettingsError(" / ".join(given), "requires --transport http")
    calling: dict[str, object] = {"--pin": pin, "--read-only": read_only, "--confirm": confirm}
    for name, value in (calling | {"--run-python": run_python}).items():
        if value and settings.tools != "call":
            raise SettingsError(name, "requires --tools call")
    if settings.confirm and settings.tools != "call":
        say(f"confirm ({settings.origins['confirm']}) has no effect without --tools call")
    serve_settings(settings)


def serve_settings(settings: Settings, *, invite: Callable[[str], None] | None = None) -> None:
    """Serve until the client disconnects or a signal arrives, then end the process.

    For a server over HTTP, `invite` is called with an address that opens the console once.
    """
    if settings.transport == "http":
        from pytools_hybrid.serve.http import check_exposure

        check_exposure(settings)
    tools, note = settings.resolved_root()
    if note:
        say(note)
    if settings.server is not None:
        say_tree(settings, tools)
    if not settings.only_reads:
        _say_absent(tools)
    from pytools_hybrid.serve import mcp as server

    if settings.transport == "stdio" and sys.stdin.isatty():
        say("speaking MCP over stdin and stdout, for a client that starts this command")
    server.serve(settings, tools, invite=invite)


def _say_absent(tools: Roots) -> None:
    from pytools_hybrid.settings import is_folder, missing, without_tools

    absent = [root for root in tools if not is_folder(root)]
    for root in absent:
        say(missing(root))
        say("its tools will be found once it exists")
    if not absent and (nothing := without_tools(tools)):
        say(nothing)
