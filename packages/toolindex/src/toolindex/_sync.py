"""Applying a plan: one write transaction, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex._meta import bump_generation
from toolindex._pairing import vectors_changed
from toolindex._rows import row_values
from toolindex._stored import stamp_columns
from toolindex._vectors import close_holes, fill, forget, forget_superseded, writable_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw
    from toolscan import ScanIssue

    from toolindex._plan import SyncPlan

_COLUMNS = (
    *("id", "source", "category", "name", "path", "signature", "summary", "description"),
    *("parameters", "tags", "name_words", "category_words", "parameter_words", "tag_words"),
    *("segments", "name_key", "qualified_key"),
    *("file_hash", "text_hash", "indexed_at", "size", "mtime_ns", "ctime_ns", "inode"),
)
_UPSERT = (
    f"INSERT INTO entries ({', '.join(_COLUMNS)}) "  # noqa: S608 - constants
    f"VALUES ({', '.join(':' + column for column in _COLUMNS)}) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS if column != "id")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did.

    Attributes:
        added: Tools that are new.
        updated: Tools whose file changed.
        removed: Tools that are gone.
        unchanged: Tools that needed nothing.
        issues: Files that were left out, each with its reason.
        rescan: Paths to scan once more without known stamps: another process changed their
            entries between the scan and the sync. Nearly always empty.
        duration: Seconds that the sync took, the scan not counted.
    """

    added: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    issues: tuple[ScanIssue, ...] = ()
    rescan: tuple[str, ...] = ()
    duration: float = 0.0


def apply_plan(connection: apsw.Connection, plan: SyncPlan) -> None:
    """Carry a plan out inside the caller's write transaction."""
    changed = [*plan.added, *plan.updated, *plan.reread]
    connection.executemany(
        "UPDATE entries SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE id = ?",
        ((*stamp_columns(stamp), id_) for id_, stamp in plan.touched.items()),
    )
    if not (changed or plan.removed):
        return
    tables = writable_tables(connection)
    # A row whose file changed must not be found by what its text meant before.
    stale = [*(str(record.id) for record in plan.updated), *plan.removed]
    for table in tables:
        forget(connection, table, stale)
    _keep_vectors_of_moved(connection, plan)
    connection.executemany("DELETE FROM entries WHERE id = ?", ((id_,) for id_ in plan.removed))
    connection.executemany(_UPSERT, map(row_values, changed))
    filled = [*(str(record.id) for record in changed), *_with_text(connection, plan.moved)]
    for table in tables:
        # Where only the text is made otherwise, the old vector serves until there is a new one.
        forget_superseded(connection, table, [str(record.id) for record in plan.reread])
        fill(connection, table, filled)
        close_holes(connection, table)
    bump_generation(connection)


def _keep_vectors_of_moved(connection: apsw.Connection, plan: SyncPlan) -> None:
    """Pass the vectors of removed files on to the new files with the same bytes.

    A name and a category are part of a tool's text, so a renamed tool would be embedded again;
    but its file is the same, and so, nearly, is what it means.
    """
    changes = connection.total_changes()
    connection.executemany(
        "INSERT OR IGNORE INTO embeddings (text_hash, model_id, stored_at, vector) "
        "SELECT ?2, e.model_id, e.stored_at, e.vector FROM entries AS gone "
        "CROSS JOIN models AS m CROSS JOIN embeddings AS e "
        "ON e.model_id = m.model_id AND e.text_hash = gone.text_hash WHERE gone.id = ?1",
        plan.moved,
    )
    if connection.total_changes() != changes:
        vectors_changed(connection)


def _with_text(connection: apsw.Connection, moved: Iterable[tuple[str, str]]) -> list[str]:
    """Return the ids of the tools that have one of the texts of moved files.

    A scan that was committed in portions has added them before their old places were removed.
    """
    rows = connection.executemany(
        "SELECT id FROM entries WHERE text_hash = ?", ((text_hash,) for _, text_hash in moved)
    )
    return [str(id_) for (id_,) in rows]
