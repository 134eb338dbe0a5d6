"""Plain SQLite FTS5: quoted words of the query joined by OR, ordered by `rank`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sets import Tool
from typing_extensions import override

from peers import Method

__all__ = ["FTS5"]


class FTS5(Method):
    """Name and description in two columns of equal weight.

    Args:
        tokenizer: FTS5's `tokenize` option.
    """

    def __init__(self, tokenizer: str) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute(
            "CREATE VIRTUAL TABLE tools USING fts5("
            f"id UNINDEXED, name, description, tokenize = '{tokenizer}')"
        )

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        with self._database:
            self._database.executemany(
                "INSERT INTO tools VALUES (?, ?, ?)",
                [(tool.id, tool.name, tool.description) for tool in tools],
            )

    @override
    def search(self, query: str, k: int) -> list[str]:
        words = re.findall(r"\w+", query)
        if not words:
            return []
        rows = self._database.execute(
            "SELECT id FROM tools WHERE tools MATCH ? ORDER BY rank LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), k),
        )
        return [id_ for (id_,) in rows]

    @override
    def close(self) -> None:
        self._database.close()
