"""`pytools-hybrid migrate`."""

from __future__ import annotations

from typing import Annotated

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Root
from pytools_hybrid.cli._run import run as run_job
from pytools_hybrid.cli._run import settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import Progress, say


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid migrate search.db 'postgresql://me@host/db?tree=acme/tools' --root tools
  $ pytools-hybrid migrate 'postgresql://me@host/db?tree=acme/tools' search.db

To a server, the tools are read from the files again, and their vectors taken from the index: no
model is asked. Interrupted, it goes on where it was when it is run again."""
)
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The index: a file or a server.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Where it is to be: a server, or a new file.")
    ],
    *,
    root: Root = None,
) -> None:
    """Take an index from a file to a server, or back, with its vectors and usage record.

    FROM stays as it is.
    """
    from pytools_hybrid.jobs.migrate import to_file, to_server

    given, wanted = settings_from(database=source), settings_from(database=target, root=root)
    if (given.server is None) == (wanted.server is None):
        raise SettingsError("FROM / TO", "give a file and a server: postgresql://…")
    if wanted.server is None:
        say(str(run_job(to_file(given, wanted))))
        return
    with Progress() as progress:
        say(str(run_job(to_server(given, wanted, progress))))
