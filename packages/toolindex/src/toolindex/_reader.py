"""Looking at one state of the index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex._rows import ENTRY_COLUMNS, to_entry
from toolindex._schema import get_meta
from toolindex._vectors import VEC_TABLE, active_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from toolindex._rows import ToolEntry

__all__ = ["Coverage", "IndexReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of the index can be searched by meaning.

    Attributes:
        tools: How many tools there are.
        vectors: How many of them have a searchable vector.
        model_id: The model of those vectors, or None before the first.
        dimensions: Their length, 0 before the first.
    """

    tools: int
    vectors: int
    model_id: str | None
    dimensions: int


class IndexReader:
    """Reads from one state of the index; good as long as the block that lends it.

    Attributes:
        connection: For a ranker's retrievers.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def entries(self, ids: Sequence[str]) -> dict[str, ToolEntry]:
        """Give the entries of some ids, in one statement; an id that is gone is left out."""
        # As one JSON value: any number of ids, and any string, even one that is not Unicode.
        rows = self.connection.execute(
            f"SELECT {ENTRY_COLUMNS} FROM entries WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608
            (json.dumps(list(ids)),),
        )
        return {row[0]: to_entry(row) for row in rows}

    def coverage(self) -> Coverage:
        """Count the tools, and those with a searchable vector."""
        tools = self.connection.execute("SELECT count(*) FROM entries").get
        active = active_model(self.connection)
        if active is None:
            return Coverage(tools=tools, vectors=0, model_id=None, dimensions=0)
        vectors = self.connection.execute(f"SELECT count(*) FROM {VEC_TABLE}_rowids").get  # noqa: S608
        return Coverage(tools=tools, vectors=vectors, model_id=active[0], dimensions=active[1])

    def generation(self) -> int:
        """Give the counter that moves on with every change that a search could see."""
        return int(get_meta(self.connection, "generation") or 0)
