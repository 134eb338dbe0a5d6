"""Commands for an index on a server, for a typer application."""

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
_ALL = "*"
_DATABASE = "--database / PYTOOLS_DATABASE"
_Server = Annotated[
    str | None,
    typer.Option(
        "--database",
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
  $ pytools-hybrid database migrate search.db 'postgresql://me@host/db?tree=acme/tools'
  $ pytools-hybrid database migrate 'postgresql://me@host/db?tree=acme/tools' search.db

For a server, the tools are read from the files again. Vectors are copied from the index, so
nothing is embedded again. PYTOOLS_DIR names their folder. If the command is interrupted, run it
again to continue."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands, with what an application does in its own way.

    Attributes:
        server: Returns the server that an option or, for None, the settings name; None for a file.
        on_store: Opens the tree of an address, for the roots that the settings name; updates it
            from their files, or not; and does some work in it.
        invalid: Makes the error for an option and what is wrong with its value.
        say: Shows something that is not a result.
        print_lines: Prints a result of several lines.
        print_json: Prints a result for programs.
    """

    server: Callable[[str | None], Address | None]
    on_store: Callable[[str, bool, _Work], str]
    invalid: Callable[[str, str], Exception]
    say: Callable[[str], object]
    print_lines: Callable[[str], object]
    print_json: Callable[[Any], object]

    def app(self) -> typer.Typer:
        """Return an application of the commands; `status` is for a command of the caller's."""
        app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
        app.command(epilog=_INIT)(self.init)
        app.command(epilog=_GRANT)(self.grant)
        app.command(epilog=_DROP)(self.drop)
        app.command(epilog=_MIGRATE)(self.migrate)
        return app

    def init(self, *, database: _Server = None) -> None:
        """Create the tables of a shared index, or migrate older ones."""
        server, opened = self._opened(database)
        with opened:
            before = opened.init()
            now = opened.status().schema
        if before == now:
            self.say(f"{server.shown} is up to date (schema {now})")
        else:
            was = f" (before: {before})" if before else ""
            self.say(f"{server.shown} has schema {now} now{was}")

    def status(self, database: str | None, output: Literal["text", "json"]) -> None:
        """Show the server's version, and the trees with their tools and vectors."""
        server, opened = self._opened(database)
        with opened:
            found = opened.status()
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
            bool, typer.Option("--write", help="Also let it add, embed and remove tools.")
        ] = False,
        tree: Annotated[
            list[str] | None,
            typer.Option(
                "--tree",
                metavar="NAME",
                help="A tree, perhaps of the future; repeatable; * is all.",
            ),
        ] = None,
        database: _Server = None,
    ) -> None:
        """Let a role read trees of a shared index, or write them as well."""
        server, opened = self._opened(database)
        trees = tree or ([server.tree] if server.tree else [])
        if not trees:
            raise self.invalid("--tree", "name the trees that the role may use, or * for all")
        try:
            named = [] if _ALL in trees else [server.of(name).tree for name in trees]
        except ValueError as error:
            raise self.invalid("--tree", str(error)) from None
        with opened:
            opened.grant(role, write=write, trees=named)
            there = {it.name for it in opened.status().trees} if named else set[str]()
        may = "write" if write else "read"
        self.say(f"{role} may {may} {', '.join(named) if named else 'all trees'}")
        if absent := [name for name in named if name not in there]:
            self.say(
                f"note: there is no tree {', '.join(absent)} yet; see pytools-hybrid status --all"
            )

    def drop(
        self,
        tree: Annotated[str, typer.Argument(help="The tree, as status --all shows it.")],
        *,
        yes: Annotated[
            bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
        ] = False,
        database: _Server = None,
    ) -> None:
        """Delete a tree from a shared index, for all hosts."""
        server, opened = self._opened(database)
        with opened:
            found = next((it for it in opened.status().trees if it.name == tree), None)
            if found is None:
                raise self.invalid("TREE", f"there is no tree {tree} in {server.shown}")
            if not yes:
                question = f"Delete {tree} with its {found.entries} tools from {server.shown}?"
                typer.confirm(question, abort=True, err=True)
            if not opened.drop(tree):
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
                    "FROM", f"{file} does not exist; pytools-hybrid status --all lists indexes"
                )
            report = self.on_store(
                target,
                True,
                lambda store, progress: _to_server(file, store, wanted, progress),
            )
        else:
            for there in (file, ToolIndex.files(file).durable, ToolIndex.files(file).backup):
                if there.exists():
                    raise self.invalid("TO", f"{there} exists already; give the path of a new file")
            copy = self.on_store(source, False, lambda store, _: _fetched(store))
            if not copy:
                nothing = "has no tools; pytools-hybrid status --all lists the trees"
                raise self.invalid("FROM", f"{given} {nothing}")
            report = _to_file(Path(copy), file)
        self.say(report)

    def _opened(self, database: str | None) -> tuple[Address, Database]:
        server = self.server(database)
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
