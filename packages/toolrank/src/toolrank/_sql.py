"""Pieces of SQL that the retrievers share."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from toolrank._records import Hit
    from toolrank.protocols import Connection

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifier(name: str, *, argument: str) -> str:
    """Return a table or column name if it is a plain identifier.

    Names cannot be bound as parameters, so only `[A-Za-z_][A-Za-z0-9_]*` is let through.

    Raises:
        RankingArgumentError: The name contains anything else.
    """
    if not _IDENTIFIER.fullmatch(name):
        raise RankingArgumentError(argument, f"{name!r} is not a plain SQL identifier")
    return name


def rows_of_keys(
    connection: Connection, sql: str, keys: Collection[Any], *, before: tuple[Any, ...] = ()
) -> list[Any]:
    """Return the rows of a statement whose last parameter is a JSON array of keys.

    Args:
        connection: The connection.
        sql: The statement.
        keys: The keys.
        before: Its other parameters.
    """
    return list(connection.execute(sql, (*before, json.dumps([*keys]))))


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Order hits as every retriever must return them: best first, ties by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdColumn:
    """Where a search table's rows get their public ids.

    Attributes:
        table: A table that shares rowids with the search table.
        column: Its column of unique ids.
    """

    table: str
    column: str

    def __post_init__(self) -> None:
        identifier(self.table, argument="content.table")
        identifier(self.column, argument="content.column")
