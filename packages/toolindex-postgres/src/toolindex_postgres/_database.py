"""Tasks of a database's owner: creating the schema, granting rights, status, dropping trees."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolindex import DatabaseError, NewerSchemaError

from toolindex_postgres._refresh import Freshness
from toolindex_postgres._rows import encoded, shown
from toolindex_postgres._tree import SUPPORTED, Tree, check_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from toolindex_postgres._connections import Connection

# Reading more tools takes longer than a minute.
_MOST_READ = 200_000
_EVERY_TREE = "*"
_READ = ("tree", "step", "entry", "tree_vector", "query_vector", "usage", "event")
_FUNCTIONS = ("may", "trees", "look", "record")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStatus:
    """One tree on the server.

    Attributes:
        name: Its name.
        entries: How many tools it has.
        generation: Its state.
        vectors: How many of its texts each model has embedded.
    """

    name: str
    entries: int
    generation: int
    vectors: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def shown_vectors(self) -> str:
        counts = ", ".join(f"{count} vectors of {model}" for model, count in self.vectors.items())
        return counts or "no vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    """The contents of a server.

    Attributes:
        server: The server's version, as it reports it.
        schema: The version of the schema, None if there is none.
        supported: The version that this package needs.
        trees: The trees that the role may read, by name.
        size: Bytes of all tables and indexes.
    """

    server: str
    schema: int | None
    supported: int
    trees: tuple[TreeStatus, ...]
    size: int


class Database:
    """A database on a server, as its owner manages it.

    Args:
        address: `postgresql://owner@host/database`, or any other form that libpq accepts.

    Attributes:
        where: The address without its password.

    Raises:
        AddressError: The address is invalid.
        UnreachableStoreError: (in methods) The server cannot be reached.
    """

    def __init__(self, address: str) -> None:
        # Imported here, so that an address can be shown without waiting for the driver.
        from toolindex_postgres._connections import Connections

        self._connections = Connections(address)
        self.where: str = self._connections.where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connections.close()

    def init(self) -> int:
        """Create the schema, or migrate an older one.

        Calling it again is harmless.

        Returns:
            The previous version, 0 if there was none.

        Raises:
            NewerSchemaError: A later version made it; nothing has changed.
            DeniedError: The role may not create a schema.
        """
        with self._connections.writing() as connection:
            return _migrate(connection, self.where)

    def status(self) -> DatabaseStatus:
        with self._connections.reading(patient=True, copies=True) as connection:
            found = _found_version(connection)
            server: str = _one(connection, "SHOW server_version")
            if not found:
                return DatabaseStatus(
                    server=server, schema=None, supported=SUPPORTED, trees=(), size=0
                )
            size = _one(
                connection,
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c "
                "WHERE c.relnamespace = 'toolindex'::regnamespace AND c.relkind = 'r'",
            )
            return DatabaseStatus(
                server=server,
                schema=found,
                supported=SUPPORTED,
                trees=_trees(connection) if found <= SUPPORTED else (),
                size=size,
            )

    def unreadable(self, tree: str) -> dict[str, str]:
        """Return the reasons why rows of a tree cannot be read, by display name.

        This reads the whole tree.

        Raises:
            SchemaError: There is no schema yet.
        """
        with self._connections.reading(patient=True, copies=True) as connection:
            rows = Tree(connection, tree, self.where).unreadable()
            return {it.name: it.reason for it in rows}

    def diagnose(self, tree: str) -> tuple[str, str, str]:
        """Check the server and one tree, without changing anything.

        Returns:
            `ok`, `warning` or `failed`; what was found; and what helps: `connect` to the server,
            `init`, `upgrade` this package, `index` the files, `repair` unreadable rows, or "".
        """
        started = time.perf_counter()
        try:
            status = self.status()
            milliseconds = 1000 * (time.perf_counter() - started)
            found = next((it for it in status.trees if it.name == tree), None)
            is_read = found is not None and found.entries <= _MOST_READ
            unreadable = self.unreadable(tree) if is_read else {}
        except DatabaseError as error:
            return "failed", str(error), "connect"
        if note := Freshness(as_of=None, problem="", left_out=unreadable).left_out_note:
            return "warning", note, "repair"
        answers = f"{self.where}: PostgreSQL {status.server}, answers in {milliseconds:.0f} ms"
        schema = status.schema
        if schema is None:
            return "failed", f"{answers}; it has no index yet", "init"
        if schema < SUPPORTED:
            return "warning", f"{answers}; its schema {schema} is older than {SUPPORTED}", "init"
        if schema > SUPPORTED:
            return "failed", f"{answers}; a later version made its schema {schema}", "upgrade"
        if found is None:
            there = ", ".join(it.name for it in status.trees) or "none"
            return "warning", f"{answers}; there is no tree {tree} (there are: {there})", "index"
        return "ok", f"{answers}; tree {tree}: {found.entries} tools, {found.shown_vectors}", ""

    def grant(self, role: str, *, write: bool, trees: Sequence[str] = ()) -> None:
        """Let a role read some trees, or read and write them, and no others.

        This replaces the role's previous grants. The role must exist: `CREATE ROLE … LOGIN`.

        Args:
            role: Its name.
            write: Whether it may change the trees; otherwise it only searches.
            trees: Their names; they need not exist yet. If there are none, all trees are granted.

        Raises:
            ValueError: The name of a tree is empty or `*`.
            DatabaseError: There is no such role, or only the owner may grant.
        """
        from psycopg import sql

        if unusable := {"", _EVERY_TREE}.intersection(trees):
            raise ValueError(f"{unusable.pop()!r} is not the name of a tree")
        with self._connections.writing() as connection:
            name = sql.Identifier(role).as_string(connection)
            check_version(self.where, _found_version(connection))
            # GRANT would also accept PUBLIC, which is not a role.
            connection.execute("SELECT %s::regrole", (name,))
            statements = [
                "REVOKE ALL ON ALL TABLES IN SCHEMA toolindex FROM {role}",
                "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA toolindex FROM {role}",
                "GRANT USAGE ON SCHEMA toolindex TO {role}",
                "GRANT SELECT ON toolindex.state TO {role}",
                *(f"GRANT SELECT ON toolindex.{table} TO {{role}}" for table in _READ),
                *(f"GRANT EXECUTE ON FUNCTION toolindex.{it} TO {{role}}" for it in _FUNCTIONS),
            ]
            if write:
                statements.append("GRANT SELECT, INSERT, UPDATE ON toolindex.lease TO {role}")
                statements += [
                    f"GRANT INSERT, UPDATE, DELETE ON toolindex.{table} TO {{role}}"
                    for table in _READ
                ]
            for statement in statements:
                connection.execute(statement.format(role=name).encode())
            connection.execute("DELETE FROM toolindex.access WHERE role = %s", (role,))
            names = [encoded(tree) for tree in trees] or [_EVERY_TREE]
            connection.execute(
                "INSERT INTO toolindex.access SELECT DISTINCT %s::name, given, %s "
                "FROM unnest(%s::text[]) AS given",
                (role, write, names),
            )

    def drop(self, tree: str) -> bool:
        """Delete a tree with all its data; return whether there was one.

        Raises:
            DeniedError: The role may not do that.
            SchemaError: There is no schema yet.
        """
        with self._connections.writing() as connection:
            check_version(self.where, _found_version(connection))
            done = connection.execute(
                "DELETE FROM toolindex.tree WHERE name = %s", (encoded(tree),)
            )
            return bool(done.rowcount)


def _trees(connection: Connection) -> tuple[TreeStatus, ...]:
    vectors: dict[int, dict[str, int]] = {}
    for tree, model, count in connection.execute(
        "SELECT tree_id, model, count(DISTINCT text_hash) FROM toolindex.tree_vector "
        "GROUP BY tree_id, model ORDER BY model"
    ):
        vectors.setdefault(tree, {})[shown(model)] = count
    rows = connection.execute(
        "SELECT t.tree_id, t.name, t.generation, (SELECT count(*) FROM toolindex.entry AS e "
        "WHERE e.tree_id = t.tree_id AND e.record IS NOT NULL) "
        "FROM toolindex.tree AS t ORDER BY t.name"
    )
    return tuple(
        TreeStatus(
            name=shown(name),
            entries=entries,
            generation=generation,
            vectors=vectors.get(tree, {}),
        )
        for tree, name, generation, entries in rows
    )


def _one(connection: Connection, statement: str) -> Any:  # noqa: ANN401 - any column
    row = connection.execute(statement.encode()).fetchone()
    return None if row is None else row[0]


def _found_version(connection: Connection) -> int | None:
    if not _one(connection, "SELECT to_regclass('toolindex.state') IS NOT NULL"):
        return None
    version: int | None = _one(connection, "SELECT version FROM toolindex.state")
    return version


def _migrate(connection: Connection, where: str) -> int:
    from importlib.resources import files

    found = _found_version(connection)
    if found is None and _is_created(connection):
        found = 0
    elif found is None or found < SUPPORTED:
        # Only the owner has the right to this lock; concurrent callers wait for it.
        connection.execute("LOCK TABLE toolindex.state IN SHARE ROW EXCLUSIVE MODE")
        found = _found_version(connection) or 0
    if found > SUPPORTED:
        raise NewerSchemaError(where, found=found, supported=SUPPORTED)
    for version in range(found + 1, SUPPORTED + 1):
        script = files("toolindex_postgres").joinpath("migrations", f"{version:04}.sql")
        connection.execute(script.read_bytes())
        connection.execute("UPDATE toolindex.state SET version = %s", (version,))
    return found


def _is_created(connection: Connection) -> bool:
    """Create an empty schema; return False if another process has made one meanwhile."""
    import psycopg.errors

    try:
        with connection.transaction():
            connection.execute("CREATE SCHEMA toolindex")
    except (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation):
        if _found_version(connection) is None:
            raise
        return False
    return True
