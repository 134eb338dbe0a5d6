"""`pytools-hybrid serve`: agents over MCP, programs over HTTP, people in a browser."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytools_hybrid.settings import Roots, Settings

_SETTINGS = {"transport": "transport", "profile": "tools"}
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@app.command(
    "serve",
    settings="root database embedding_model tools include exclude read_only run_python confirm "
    "transport host port",
    epilog="""Examples:

\b
  $ pytools-hybrid serve --root .freeact/generated
  $ pytools-hybrid serve --open
  $ PYTOOLS_TOKEN=… pytools-hybrid serve --transport http --host 0.0.0.0
  $ pytools-hybrid serve --profile call --prompt

Profiles: search has search_tools, describe_tool and report_outcome; call has call_tool as well, for
clients that run no code; basic has list_categories and list_tools, which need no index; all has
those of search and basic. Some options need --profile call: --read-only, --run-python, --confirm.

--open starts a server that only you can use, on a free port and with a token of its own. The
browser gets an address that logs in once; the variable BROWSER names a browser.""",
)
def serve(
    flags: app.Flags,
    *,
    open_: Annotated[
        bool, typer.Option("--open", help="Serve the console, and open it in a browser.")
    ] = False,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Print what a system prompt should say, and exit.")
    ] = False,
) -> None:
    """The index follows the files while the server runs.

    Over stdio, only the protocol is written to stdout. Ctrl-C, SIGTERM or closing stdin stops it.
    """
    if open_:
        flags["host"] = flags["host"] or "127.0.0.1"
        flags |= {"transport": "http", "port": flags["port"] or 0, "console": True}
    settings = app.settings_from(is_server=True, **flags)
    if prompt:
        from pytools_hybrid.serve import prompts

        modes: dict[str, prompts.WorkflowMode] = {"call": "call", "basic": "basic"}
        mode = modes.get(settings.tools, "hybrid")
        typer.echo(prompts.section(mode), nl=False)
        return
    needs = {"host": "transport http", "port": "transport http"}
    needs |= dict.fromkeys(("read_only", "run_python", "confirm"), "profile call")
    for name, needed in needs.items():
        setting, _, value = needed.partition(" ")
        if flags[name] and getattr(settings, _SETTINGS[setting]) != value:
            raise SettingsError(f"--{name.replace('_', '-')}", f"requires --{needed}")
    if settings.confirm and settings.tools != "call":
        say(f"confirm ({settings.origins['confirm']}) has no effect without --profile call")
    if open_ and settings.token is None:
        from secrets import token_urlsafe

        from pydantic import SecretStr

        settings = settings.model_copy(update={"token": SecretStr(token_urlsafe(32))})
    _serve(settings, invite=_open if open_ else None)


def _serve(settings: Settings, *, invite: Callable[[str], None] | None) -> None:
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
        app.say_tree(settings, tools)
    if not settings.only_reads:
        _say_absent(tools)
    from pytools_hybrid.serve import process

    if settings.transport == "stdio" and sys.stdin.isatty():
        say("speaking MCP over stdin and stdout, for a client that starts this command")
    process.serve(settings, tools, invite=invite)


def _say_absent(tools: Roots) -> None:
    from pytools_hybrid.settings import is_folder, missing, without_tools

    absent = [root for root in tools if not is_folder(root)]
    for root in absent:
        say(missing(root))
        say("its tools will be found once it exists")
    if not absent and (nothing := without_tools(tools)):
        say(nothing)


def _open(address: str) -> None:
    """Open an address in the user's browser, in a thread because some browsers block."""
    from threading import Thread

    def open_it() -> None:
        if _is_opened(address):
            say("the console is in your browser; Ctrl-C ends it")
        else:
            say(f"open {address} in a browser (the address works once); Ctrl-C ends the console")

    Thread(target=open_it, name="browser", daemon=True).start()


def _is_opened(address: str) -> bool:
    import webbrowser

    # Without a display, a browser would open in the terminal and take it over.
    if sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
