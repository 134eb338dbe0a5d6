"""Commands for an index on a server, to be added to a typer application: `database`, `migrate`.

Typer is not a dependency of this package: the application has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from toolindex_postgres._address import Address
    from toolindex_postgres._database import Database
    from toolindex_postgres._store import SharedStore

__all__ = ["Commands"]

_Work = Callable[["SharedStore", Callable[[str, int, int | None], object]], str]
"""Work in a tree, which reports its progress: a stage, what is done, and the total."""

_DATABASE = "--database / PYTOOLS_DATABASE"
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
_INIT = """Example:

\b
  $ createdb tools
  $ pytools-hybrid database init --database postgresql://owner@db.example.com/tools

The role in the address becomes the owner of the index. The tables are in a separate schema,
toolindex, so you can use a database that has other tables too. No extension is needed. Run it
again after an upgrade."""
_STATUS = """Example:

\b
  $ pytools-hybrid database status --database postgresql://me@db.example.com/tools

Lists the trees that the role in the address may read."""
_GRANT = """Examples:

\b
  $ psql tools -c "CREATE ROLE agents LOGIN PASSWORD '…'"
  $ pytools-hybrid database grant agents --tree acme/tools
  $ pytools-hybrid database grant ci --write --tree acme/tools --tree acme/legacy

The role must exist. This replaces what it was granted before. Row level security on the server
keeps the role out of all other trees, whatever a client sends."""
_DROP = """Example:

\b
  $ pytools-hybrid database drop acme/legacy

Other trees keep their vectors. Files on the hosts stay, and a host that still writes this tree
creates it again."""
_MIGRATE = """Examples:

\b
  $ pytools-hybrid migrate search.db 'postgresql://me@host/db?tree=acme/tools' --root tools
  $ pytools-hybrid migrate 'postgresql://me@host/db?tree=acme/tools' search.db

For a server, the tools are read from the files again. Vectors are copied from the index, so
nothing is embedded again. If the command is interrupted, run it again to continue."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands, with what an application does in its own way.

    Attributes:
        server: Returns the server that an option or, for None, the settings name; None for a file.
        on_store: Opens the tree of an address, for the roots that an option or, for None, the
            settings name; brings it up to date with their files, or not; and does some work in it.
        invalid: Makes the error for an option and what is wrong with its value.
        say: Shows something that is not a result.
        print_lines: Prints a result of several lines.
        print_json: Prints a result for programs.
    """

    server: Callable[[str | None], Address | None]
    on_store: Callable[[str, list[Path] | None, bool, _Work], str]
    invalid: Callable[[str, str], Exception]
    say: Callable[[str], object]
    print_lines: Callable[[str], object]
    print_json: Callable[[Any], object]

    def add_to(self, app: typer.Typer) -> None:
        """Add the commands to an application."""
        database = typer.Typer(
            help="Manage an index that many hosts share, on a PostgreSQL server.",
            no_args_is_help=True,
            rich_markup_mode=None,
        )
        app.add_typer(database, name="database")
        database.command(epilog=_INIT)(self.init)
        database.command(epilog=_STATUS)(self.status)
        database.command(epilog=_GRANT)(self.grant)
        database.command(epilog=_DROP)(self.drop)
        app.command(epilog=_MIGRATE)(self.migrate)

    def init(self, *, db: _Server = None) -> None:
        """Create the tables of a shared index, or migrate older ones."""
        server, database = self._opened(db)
        with database:
            before = database.init()
            now = database.status().schema
        if before == now:
            self.say(f"{server.shown} is up to date (schema {now})")
        else:
            was = f" (before: {before})" if before else ""
            self.say(f"{server.shown} has schema {now} now{was}")

    def status(
        self,
        *,
        db: _Server = None,
        output: Annotated[
            Literal["text", "json"], typer.Option(help="For people, or for programs.")
        ] = "text",
    ) -> None:
        """Show the server's version, and the trees with their tools and vectors."""
        server, database = self._opened(db)
        with database:
            found = database.status()
        if output == "json":
            self.print_json({"database": server.shown, **asdict(found)})
            return
        if found.schema is None:
            self.print_lines(f"{server.shown}: PostgreSQL {found.server}, no index yet")
            self.say("create it with pytools-hybrid database init")
            return
        schema = f"schema {found.schema} of {found.supported}"
        size = f"{found.size / (1 << 20):.1f} MiB"
        self.print_lines(f"{server.shown}: PostgreSQL {found.server}, {schema}, {size}")
        for tree in found.trees:
            counts = f"{tree.entries} tools  generation {tree.generation}"
            self.print_lines(f"{tree.name}  {counts}  {tree.shown_vectors}")
        if not found.trees:
            self.say("there are no trees yet, or none that this role may read")

    def grant(
        self,
        role: Annotated[str, typer.Argument(help="The role, which must exist.")],
        *,
        write: Annotated[
            bool,
            typer.Option(
                "--write/--read",
                help="Whether it may also add, embed and remove tools, or only search. "
                "[default: read]",
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
        server, database = self._opened(db)
        trees = tree or ([server.tree] if server.tree and not all_trees else [])
        if bool(trees) == all_trees:
            raise self.invalid(
                "--tree / --all-trees", "say which trees the role may use: give one of these flags"
            )
        try:
            named = [server.of(name).tree for name in trees]
        except ValueError as error:
            raise self.invalid("--tree", str(error)) from None
        with database:
            database.grant(role, write=write, trees=named)
            there = {it.name for it in database.status().trees} if named else set[str]()
        may = "write" if write else "read"
        self.say(f"{role} may {may} {', '.join(named) if named else 'all trees'}")
        if absent := [name for name in named if name not in there]:
            self.say(
                f"note: there is no tree {', '.join(absent)} yet; see pytools-hybrid database "
                "status"
            )

    def drop(
        self,
        tree: Annotated[str, typer.Argument(help="The tree, as database status shows it.")],
        *,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
        db: _Server = None,
    ) -> None:
        """Delete a tree from a shared index, for all hosts."""
        server, database = self._opened(db)
        with database:
            found = next((it for it in database.status().trees if it.name == tree), None)
            if found is None:
                raise self.invalid("TREE", f"there is no tree {tree} in {server.shown}")
            if not yes:
                question = f"Delete {tree} with its {found.entries} tools from {server.shown}?"
                typer.confirm(question, abort=True, err=True)
            if not database.drop(tree):
                raise self.invalid(
                    "TREE", f"{tree} was not deleted: only the owner of the index can delete trees"
                )
        self.say(f"{tree} is deleted")

    def migrate(
        self,
        source: Annotated[
            str, typer.Argument(metavar="FROM", help="The existing index: a file or a server.")
        ],
        target: Annotated[
            str, typer.Argument(metavar="TO", help="Where to copy it: a server, or a new file.")
        ],
        *,
        root: Annotated[
            list[Path] | None,
            typer.Option(
                "--root",
                metavar="DIR",
                readable=False,
                help="For a server: the tree of tools; can be repeated. [env: PYTOOLS_DIR; "
                "default: as for index]",
            ),
        ] = None,
    ) -> None:
        """Copy an index from a file to a server, or back, with its vectors and usage record.

        FROM is not changed.
        """
        from toolindex_postgres._migrate import existing_file, fetched, to_file, to_server

        given, wanted = self.server(source), self.server(target)
        if (given is None) == (wanted is None):
            raise self.invalid(
                "FROM / TO", "one must be a file, the other a server: postgresql://…"
            )
        file = Path(source if given is None else target).expanduser()
        if wanted is not None:
            if not file.is_file():
                raise self.invalid(
                    "FROM", f"{file} does not exist; pytools-hybrid cache lists indexes"
                )
            report = self.on_store(
                target, root, True, lambda store, progress: to_server(file, store, wanted, progress)
            )
        else:
            if (there := existing_file(file)) is not None:
                raise self.invalid("TO", f"{there} exists already; give the path of a new file")
            copy = self.on_store(source, None, False, lambda store, _: fetched(store))
            if not copy:
                nothing = "has no tools; pytools-hybrid database status lists the trees"
                raise self.invalid("FROM", f"{given} {nothing}")
            report = to_file(Path(copy), file)
        self.say(report)

    def _opened(self, db: str | None) -> tuple[Address, Database]:
        server = self.server(db)
        if server is None:
            raise self.invalid(_DATABASE, "name the server: postgresql://owner@host/database")
        return server, server.database()
