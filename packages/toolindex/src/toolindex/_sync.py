"""Applying a plan: one write transaction, or nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolindex._rows import STORED_COLUMNS, row_values, stamp_to_json, to_stored
from toolindex._schema import get_meta, set_meta
from toolindex._vectors import fill_from_kept, forget_rows

if TYPE_CHECKING:
    import apsw
    from toolscan import ScanIssue, ToolRecord

    from toolindex._plan import StoredEntry, SyncPlan

__all__ = ["SyncReport", "apply_plan", "bump_generation", "stored_entries"]

_COLUMNS = (
    *("id", "source", "category", "name", "path", "signature", "summary", "description"),
    *("parameters", "tags", "name_words", "category_words", "parameter_words", "tag_words"),
    *("file_hash", "text_hash", "stamp", "indexed_at"),
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

    added: int
    updated: int
    removed: int
    unchanged: int
    issues: tuple[ScanIssue, ...]
    rescan: tuple[str, ...]
    duration: float


def stored_entries(connection: apsw.Connection) -> dict[str, StoredEntry]:
    """Give what the index holds, by id."""
    rows = connection.execute(f"SELECT {STORED_COLUMNS} FROM entries")  # noqa: S608 - a constant
    return {row[0]: to_stored(row) for row in rows}


def apply_plan(connection: apsw.Connection, plan: SyncPlan) -> None:
    """Carry a plan out inside the caller's write transaction."""
    changed = [*plan.added, *plan.updated]
    # vec0 has no upsert, and a row whose text changed must not keep the old text's vector.
    forget_rows(connection, [*(str(record.id) for record in plan.updated), *plan.removed])
    connection.executemany("DELETE FROM entries WHERE id = ?", ((id_,) for id_ in plan.removed))
    connection.executemany(_UPSERT, (_with_time(record) for record in changed))
    connection.executemany(
        "UPDATE entries SET stamp = ? WHERE id = ?",
        ((stamp_to_json(record.stamp), str(record.id)) for record in plan.touched),
    )
    if changed or plan.removed:
        fill_from_kept(connection, [str(record.id) for record in changed])
        bump_generation(connection)


def bump_generation(connection: apsw.Connection) -> None:
    """Count one more state of the index: an answer is stale when the count has moved on."""
    set_meta(connection, "generation", str(int(get_meta(connection, "generation") or 0) + 1))


def _with_time(record: ToolRecord) -> dict[str, Any]:
    return row_values(record) | {"indexed_at": time.time()}
