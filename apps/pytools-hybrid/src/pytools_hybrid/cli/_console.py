"""`pytools-hybrid console`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pytools_hybrid.cli._options import Database, Exclude, Include, Model, Root
from pytools_hybrid.cli._run import settings_from
from pytools_hybrid.cli.app import app
from pytools_hybrid.cli.serve import serve_settings
from pytools_hybrid.terminal import say

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid console
  $ pytools-hybrid console --root .freeact/generated --port 8000

Only you can use the server: it only listens on this machine, and requires a token made for it.
The browser is opened at an address that logs in once. If no browser can be opened, the address is
printed; the variable BROWSER names a browser."""
)
def console(
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    include: Include = None,
    exclude: Exclude = None,
    port: Annotated[int, typer.Option(help="The port; 0 selects a free one.")] = 0,
) -> None:
    """Open the console in a browser: search as your agents do, and see why.

    Ctrl-C ends it.
    """
    settings = settings_from(
        is_server=True,
        root=root,
        database=db,
        embedding_model=embedding_model,
        include=include,
        exclude=exclude,
        tools="search",
        transport="http",
        host="127.0.0.1",
        port=port,
        console=True,
    )
    if settings.token is None:
        from secrets import token_urlsafe

        from pydantic import SecretStr

        settings = settings.model_copy(update={"token": SecretStr(token_urlsafe(32))})
    serve_settings(settings, invite=_open)


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
