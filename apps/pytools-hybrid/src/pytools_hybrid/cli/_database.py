"""`pytools-hybrid database`: manage a shared index on a server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Output
from pytools_hybrid.cli._run import settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import print_json, printable, say

if TYPE_CHECKING:
    from toolindex_postgres import Database as ServerDatabase

    from pytools_hybrid.settings import Server

_Server = Annotated[
    str | None,
    typer.Option(
        "--database",
        "--db",
        "--database-path",
        metavar="ADDRESS",
        help="The server: postgresql://user@host/db; required. [env: PYTOOLS_DATABASE]",
    ),
]

_database: typer.Typer = typer.Typer(
    help="Manage an index that many hosts share, on a PostgreSQL server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(_database, name="database")


@_database.command(
    epilog="""Example:

\b
  $ createdb tools
  $ pytools-hybrid database init --database postgresql://owner@db.example.com/tools

The role in the address becomes the owner of the index. The tables are in a separate schema,
toolindex, so you can use a database that has other tables too. No extension is needed. Run it
again after an upgrade."""
)
def init(*, db: _Server = None) -> None:
    """Create the tables of a shared index, or migrate older ones."""
    server, database = _opened(db)
    with database:
        before = database.init()
        now = database.status().schema
    if before == now:
        say(f"{server.shown} is up to date (schema {now})")
    else:
        say(f"{server.shown} has schema {now} now{f' (before: {before})' if before else ''}")


@_database.command(
    epilog="""Example:

\b
  $ pytools-hybrid database status --database postgresql://me@db.example.com/tools

Lists the trees that the role in the address may read."""
)
def status(
    *,
    db: _Server = None,
    output: Output = "text",
) -> None:
    """Show the server's version, and the trees with their tools and vectors."""
    server, database = _opened(db)
    with database:
        found = database.status()
    if output == "json":
        print_json({"database": server.shown, **asdict(found)})
        return
    if found.schema is None:
        typer.echo(f"{printable(server.shown)}: PostgreSQL {found.server}, no index yet")
        say("create it with pytools-hybrid database init")
        return
    size = f"{found.size / (1 << 20):.1f} MiB"
    schema = f"schema {found.schema} of {found.supported}"
    parts = f"PostgreSQL {found.server}, {schema}, {size}"
    typer.echo(f"{printable(server.shown)}: {parts}")
    for tree in found.trees:
        vectors = ", ".join(f"{count} vectors of {model}" for model, count in tree.vectors.items())
        line = f"{tree.name}  {tree.entries} tools  generation {tree.generation}"
        typer.echo(printable(f"{line}  {vectors or 'no vectors'}"))
    if not found.trees:
        say("there are no trees yet, or none that this role may read")


@_database.command(
    epilog="""Examples:

\b
  $ psql tools -c "CREATE ROLE agents LOGIN PASSWORD '…'"
  $ pytools-hybrid database grant agents --tree acme/tools
  $ pytools-hybrid database grant ci --write --tree acme/tools --tree acme/legacy

The role must exist. This replaces what it was granted before. Row level security on the server
keeps the role out of all other trees, whatever a client sends."""
)
def grant(
    role: Annotated[str, typer.Argument(help="The role, which must exist.")],
    *,
    write: Annotated[
        bool,
        typer.Option(
            "--write/--read",
            help="Whether it may also add, embed and remove tools, or only search. [default: read]",
            show_default=False,
        ),
    ] = False,
    tree: Annotated[
        list[str] | None,
        typer.Option(
            "--tree", metavar="NAME", help="A tree, which need not exist yet; can be repeated."
        ),
    ] = None,
    all_trees: Annotated[
        bool, typer.Option("--all-trees", help="All trees, including those created later.")
    ] = False,
    db: _Server = None,
) -> None:
    """Let a role read trees of a shared index, or write them as well."""
    server, database = _opened(db)
    trees = tree or ([server.tree] if server.tree and not all_trees else [])
    if bool(trees) == all_trees:
        raise SettingsError(
            "--tree / --all-trees", "say which trees the role may use: give one of these flags"
        )
    try:
        named = [server.of(name).tree for name in trees]
    except ValueError as error:
        raise SettingsError("--tree", str(error)) from None
    with database:
        database.grant(role, write=write, trees=named)
        there = {it.name for it in database.status().trees} if named else set[str]()
    may = "write" if write else "read"
    say(f"{role} may {may} {', '.join(named) if named else 'all trees'}")
    if absent := [name for name in named if name not in there]:
        say(f"note: there is no tree {', '.join(absent)} yet; see pytools-hybrid database status")


@_database.command(
    epilog="""Example:

\b
  $ pytools-hybrid database drop acme/legacy

Other trees keep their vectors. Files on the hosts stay, and a host that still writes this tree
creates it again."""
)
def drop(
    tree: Annotated[str, typer.Argument(help="The tree, as database status shows it.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    db: _Server = None,
) -> None:
    """Delete a tree from a shared index, for all hosts."""
    server, database = _opened(db)
    with database:
        found = next((it for it in database.status().trees if it.name == tree), None)
        if found is None:
            raise SettingsError("TREE", f"there is no tree {tree} in {server.shown}")
        if not yes:
            question = f"Delete {tree} with its {found.entries} tools from {server.shown}?"
            typer.confirm(question, abort=True, err=True)
        if not database.drop(tree):
            raise SettingsError(
                "TREE", f"{tree} was not deleted: only the owner of the index can delete trees"
            )
    say(f"{tree} is deleted")


def _opened(db: str | None) -> tuple[Server, ServerDatabase]:
    """Return the server named by a flag or the settings."""
    settings = settings_from(database=db)
    server = settings.server
    if server is None:
        raise SettingsError(
            "--database / PYTOOLS_DATABASE", "name the server: postgresql://owner@host/database"
        )
    from pytools_hybrid.index import check_installed

    check_installed(settings)
    from toolindex_postgres import Database as ServerDatabase

    return server, ServerDatabase(server.url)
