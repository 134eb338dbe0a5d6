"""The two files of an index: what can be rebuilt from the tools, and what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Part(NamedTuple):
    """One of the two files of an index.

    Attributes:
        schema: Its name in a connection to both.
        suffix: The suffix of its name, after that of the index.
        application_id: SQLite's mark in the file header that says whose database this is.
        version: The newest schema this version reads; a file's own is its `user_version`.
        sql: The SQL file that creates it.
        steps: The folder of SQL files that migrate older versions.
        tables: The tables it must have.
    """

    schema: str
    suffix: str
    application_id: int
    version: int
    sql: str
    steps: str
    tables: frozenset[str]

    def path(self, index: Path) -> Path:
        """Return the path of this file for the index at a path."""
        return index.with_name(index.name + self.suffix)


INDEX = Part(
    schema="main",
    suffix="",
    application_id=0x70797469,  # pyti
    version=2,
    sql="schema.sql",
    steps="migrations",
    tables=frozenset({"meta", "entries", "entries_fts", "models", "vector_rows"}),
)
KEPT = Part(
    schema="kept",
    suffix="-kept",
    application_id=0x7079746B,  # pytk
    version=1,
    sql="kept.sql",
    steps="migrations_kept",
    tables=frozenset(
        {"embeddings", "refusals", "query_embeddings", "searches", "outcomes", "counters"}
    ),
)
PARTS = INDEX, KEPT
BACKUP = KEPT._replace(suffix="-kept.backup")
"""The copy of the durable file; see `ToolIndex.back_up`."""
FORMER_ID = 0x7079746C  # pytl
"""The mark of early development versions, which kept everything in one file."""


def kept_path(index: Path) -> Path:
    """Return the path of the file of irreplaceable data."""
    return KEPT.path(index)


def backup_path(index: Path) -> Path:
    """Return the path of the copy of that file."""
    return BACKUP.path(index)


def beside(file: Path) -> tuple[Path, Path]:
    """Return the paths of a database's log and of that log's index."""
    return file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")
