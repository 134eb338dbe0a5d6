"""Tasks of a database's owner: creating the schema, granting rights, status, dropping trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import sql

from toolindex_postgres import _tree as tree_
from toolindex_postgres._migrations import check_version, found_version, migrate
from toolindex_postgres._pool import Connections
from toolindex_postgres._texts import encoded, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from toolindex_postgres._connection import Connection

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
        self._connections = Connections(address)
        self.where: str = self._connections.where

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
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
            return migrate(connection, self.where)

    def status(self) -> DatabaseStatus:
        """Return the status of the database."""
        from toolindex_postgres._migrations import SUPPORTED

        with self._connections.reading(patient=True, copies=True) as connection:
            found = found_version(connection)
            server = str(_one(connection, "SHOW server_version"))
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
                size=int(str(size)),
            )

    def unreadable(self, tree: str) -> dict[str, str]:
        """Return the reasons why rows of a tree cannot be read, by display name.

        This reads the whole tree.

        Raises:
            SchemaError: There is no schema yet.
        """
        with self._connections.reading(patient=True, copies=True) as connection:
            number = tree_.state(connection, tree, self.where).tree
            return {it.name: it.reason for it in tree_.unreadable(connection, number)}

    def grant(self, role: str, *, write: bool, trees: Sequence[str] = ()) -> None:
        """Let a role read some trees, or read and write them, and no others.

        This replaces the role's previous grants. The role must exist: `CREATE ROLE … LOGIN`.

        Args:
            role: Its name.
            write: Whether it may change the trees; otherwise it only searches.
            trees: Their names; they need not exist yet. If there are none, all trees are granted.

        Raises:
            ValueError: A name is empty, or `*`, which means all trees in the table of grants.
            DatabaseError: There is no such role.
            DeniedError: Only the owner of the schema may grant.
            SchemaError: There is no schema yet.
        """
        if unusable := {"", _EVERY_TREE}.intersection(trees):
            raise ValueError(f"{unusable.pop()!r} is not the name of a tree")
        with self._connections.writing() as connection:
            name = sql.Identifier(role).as_string(connection)
            check_version(self.where, found_version(connection))
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
            check_version(self.where, found_version(connection))
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


def _one(connection: Connection, statement: str) -> object:
    row = connection.execute(statement.encode()).fetchone()
    return None if row is None else row[0]
