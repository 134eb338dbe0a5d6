"""Commands for an index on a server, to be added to a typer application: `database`, `migrate`."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from toolindex import DatabaseError

if TYPE_CHECKING:
    from toolindex import ToolIndex

    from toolindex_postgres._address import Address
    from toolindex_postgres._database import Database
    from toolindex_postgres._store import SharedStore

__all__ = ["Commands"]

_Progress = Callable[[str, int, int | None], object]
"""Called with a stage, what is done, and the total if it is known."""
_Work = Callable[["SharedStore", _Progress], str]

_BATCH = 500
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
        from toolindex import ToolIndex

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
                target,
                root,
                True,
                lambda store, progress: _to_server(file, store, wanted, progress),
            )
        else:
            for there in (file, ToolIndex.files(file).durable, ToolIndex.files(file).backup):
                if there.exists():
                    raise self.invalid("TO", f"{there} exists already; give the path of a new file")
            copy = self.on_store(source, None, False, lambda store, _: _fetched(store))
            if not copy:
                nothing = "has no tools; pytools-hybrid database status lists the trees"
                raise self.invalid("FROM", f"{given} {nothing}")
            report = _to_file(Path(copy), file)
        self.say(report)

    def _opened(self, db: str | None) -> tuple[Address, Database]:
        server = self.server(db)
        if server is None:
            raise self.invalid(_DATABASE, "name the server: postgresql://owner@host/database")
        return server, server.database()


def _to_server(source: Path, store: SharedStore, address: Address, progress: _Progress) -> str:
    """Copy vectors and the usage record of a file; repeating it only adds what is missing.

    Args:
        source: The file.
        store: The tree, which already has the tools of their files.
        address: Its address.
        progress: Called with a stage, what is done, and the total.

    Returns:
        What was copied, as a sentence.
    """
    from toolindex import ToolIndex

    with closing(ToolIndex(source, read_only=True)) as old:
        vectors = _add_vectors(old, store, progress)
        # The copy has what this host has already sent; other hosts do not send this record.
        known = store.copy.usage
        ids, equal = {it.id for it in known.searches()}, set(known.outcomes())
        searches = [it for it in old.usage.searches() if it.id not in ids]
        outcomes = [it for it in old.usage.outcomes() if it not in equal]
        store.usage.record_searches(searches)
        store.usage.record_outcomes(outcomes)
    where = str(address.of(store.tree))
    with store.reading() as reader:
        return _report(where, reader.coverage("").tools, vectors, len(searches), len(outcomes))


def _fetched(store: SharedStore) -> str:
    """Fetch everything of a tree into its copy; return the copy's file, or "" without tools.

    Raises:
        DatabaseError: The server cannot be reached.
    """
    if problem := store.freshness().problem:
        where, _, reason = problem.partition(": ")
        raise DatabaseError(where, reason)
    with store.reading() as reader:
        if not reader.coverage("").tools:
            return ""
    # This includes the records of other hosts.
    store.usage.statistics()
    return store.copy.where


def _to_file(copy: Path, target: Path) -> str:
    """Make a new file from the file of a copy, complete or not at all."""
    from toolindex import ToolIndex

    partial = target.with_name(f"{target.name}.partial")
    for source, made in (
        (copy, partial),
        (ToolIndex.files(copy).durable, ToolIndex.files(partial).durable),
    ):
        # Left over from an interrupted run.
        made.unlink(missing_ok=True)
        if source.exists():
            with (
                closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as old,
                closing(sqlite3.connect(made)) as new,
            ):
                old.backup(new)
    if ToolIndex.files(partial).durable.exists():
        ToolIndex.files(partial).durable.replace(ToolIndex.files(target).durable)
    partial.replace(target)
    with closing(ToolIndex(target, read_only=True)) as index, index.reading() as reader:
        vectors = sum(reader.coverage(model).vectors for model in reader.models())
        usage = index.usage
        counts = len(usage.searches()), len(usage.outcomes())
        return _report(str(target), reader.coverage("").tools, vectors, *counts)


def _report(where: str, tools: int, vectors: int, searches: int, outcomes: int) -> str:
    return (
        f"{where} has {tools} tools; copied: {vectors} vectors, "
        f"{searches} searches, {outcomes} outcomes"
    )


def _add_vectors(old: ToolIndex, store: SharedStore, progress: _Progress) -> int:
    added = 0
    with old.reading() as reader:
        given = {model: reader.vectors(model) for model in reader.models()}
    for model, by_id in given.items():
        floats = {id_: array("f", vector) for id_, vector in by_id.items()}
        lengths = {len(vector) for vector in floats.values()}
        if len(lengths) != 1:
            continue
        store.use_model(model, dimensions=lengths.pop())
        with store.reading() as new:
            held = frozenset(new.with_vectors(floats, model_id=model))
        missing = [id_ for id_ in floats if id_ not in held]
        for start in range(0, len(missing), _BATCH):
            progress("copying vectors", start, len(missing))
            by_hash: dict[str, array[float]] = {}
            for id_ in missing[start : start + _BATCH]:
                # If a file has changed since, its text is different.
                same = set(old.text_hashes([id_])) & set(store.text_hashes([id_]))
                by_hash |= dict.fromkeys(same, floats[id_])
            store.put_vectors(model, by_hash)
            added += len(by_hash)
    return added
