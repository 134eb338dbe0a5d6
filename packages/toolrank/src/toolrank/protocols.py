"""What toolrank needs from others: a database connection, and retrievers to fuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolrank._records import Hit, Query

__all__ = ["Connection", "Retriever"]


class Connection(Protocol):
    """The part of a SQLite connection that retrieval uses.

    `sqlite3.Connection` and `apsw.Connection` both have it.
    """

    def execute(self, sql: str, parameters: Any, /) -> Iterable[Any]:  # noqa: ANN401 - drivers differ
        """Run one statement and give its rows as tuples."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A source of ranked candidates.

    An implementation gives at most `depth` hits, best first, each id once, equal scores in
    the order of their ids; it gives an empty list for a query it has no answer to and raises
    only when the source itself is broken.
    """

    @property
    def name(self) -> str:
        """How this retriever is called in contributions, unique within a ranker."""
        ...

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Give the best `depth` candidates (at least 1) for the query."""
        ...
