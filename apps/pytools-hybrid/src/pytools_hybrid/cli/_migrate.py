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

For a server, the tools are read from the files again. Vectors are copied from the index, so
nothing is embedded again. If the command is interrupted, run it again to continue."""
)
def migrate(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The existing index: a file or a server.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Where to copy it: a server, or a new file.")
    ],
    *,
    root: Root = None,
) -> None:
    """Copy an index from a file to a server, or back, with its vectors and usage record.

    FROM is not changed.
    """
    from pytools_hybrid.jobs.migrate import to_file, to_server

    given, wanted = settings_from(database=source), settings_from(database=target, root=root)
    if (given.server is None) == (wanted.server is None):
        raise SettingsError("FROM / TO", "one must be a file, the other a server: postgresql://…")
    if wanted.server is None:
        say(str(run_job(to_file(given, wanted))))
        return
    with Progress() as progress:
        say(str(run_job(to_server(given, wanted, progress))))
