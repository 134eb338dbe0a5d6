"""Bringing the index up to date with the files: planning the changes, and applying them.

The plan is made without access to the database or the disk. It is applied in one write transaction,
or not at all.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from toolindex._meta import CHANGED_AT, bump_generation, set_meta
from toolindex._pairing import vectors_changed
from toolindex._rows import row_values
from toolindex._stored import stamp_columns
from toolindex._vectors import close_holes, fill, forget, forget_superseded, writable_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import apsw
    from toolscan import ScanIssue, ScanReport, ToolRecord

    from toolindex._stored import Stamp, StoredEntry

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
class SyncPlan:
    """The changes that bring the index up to date with a scan.

    Attributes:
        added: Tools that are not in the index.
        updated: Tools whose file changed.
        reread: Tools whose file did not change, but was read by another version.
        touched: The new stamps, by id, of tools whose file has the same content but another stamp.
        removed: Ids of tools that are gone.
        moved: Ids of removed tools, each with the text hash of a new tool whose file has the same
            content.
        unchanged: How many tools need no change.
        rescan: Paths that the scan skipped as known, but whose entries have since been lost, or
            were written by another version.
    """

    added: tuple[ToolRecord, ...] = ()
    updated: tuple[ToolRecord, ...] = ()
    reread: tuple[ToolRecord, ...] = ()
    touched: Mapping[str, Stamp | None] = field(default_factory=dict[str, "Stamp | None"])
    removed: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    unchanged: int = 0
    rescan: tuple[str, ...] = ()


def plan_sync(
    stored: Mapping[str, StoredEntry],
    scanned: ScanReport,
    *,
    within: Collection[str] | None = None,
    reread: bool = False,
) -> SyncPlan:
    """Compare the index with a scan.

    Args:
        stored: The index's entries by id.
        scanned: The scan's report.
        within: The paths the scan was limited to (posix, relative to the root; files or
            folders); entries elsewhere are left alone. None means the whole root.
        reread: Whether the version of the reader has changed, so that every record counts as new.

    Returns:
        The plan; applying it twice is the same as once.
    """
    in_scope = _scope(within)
    passed_over = frozenset(scanned.unchanged)
    rescan = set(passed_over)
    records = {str(record.id): record for record in scanned.records}
    added: list[ToolRecord] = []
    updated: list[ToolRecord] = []
    read_again: list[ToolRecord] = []
    touched: dict[str, Stamp | None] = {}
    unchanged = 0
    for id_, record in records.items():
        entry = stored.get(id_)
        if entry is None:
            added.append(record)
        elif entry.file_hash != record.file_hash or entry.path != record.path:
            updated.append(record)
        elif reread:
            read_again.append(record)
        elif entry.stamp != record.stamp:
            touched[id_] = record.stamp
        else:
            unchanged += 1
    removed: list[str] = []
    for id_, entry in stored.items():
        if entry.path in passed_over:
            stamp = scanned.touched.get(entry.path, entry.stamp)
            if stamp == entry.stamp:
                unchanged += 1
            else:
                touched[id_] = stamp
            # Another version has read the file in the meantime.
            if not reread:
                rescan.discard(entry.path)
        elif id_ not in records and in_scope(entry.path):
            removed.append(id_)
    return SyncPlan(
        added=tuple(added),
        updated=tuple(updated),
        reread=tuple(read_again),
        touched=touched,
        removed=tuple(sorted(removed)),
        moved=_moved(stored, removed, scanned.records),
        unchanged=unchanged,
        rescan=tuple(sorted(rescan)),
    )


def _moved(
    stored: Mapping[str, StoredEntry], removed: Collection[str], records: Collection[ToolRecord]
) -> tuple[tuple[str, str], ...]:
    """Pair tools whose files are gone with new tools whose files have the same content.

    If a file has several tools, those with the same name are paired.
    """
    in_file = Counter(record.path for record in records)
    gone: dict[str, str] = {}
    for id_ in removed:
        gone[stored[id_].file_hash] = id_
        gone[f"{stored[id_].file_hash} {id_.rpartition(':')[2]}"] = id_
    pairs: list[tuple[str, str]] = []
    for record in records if gone else ():
        key = (
            record.file_hash
            if in_file[record.path] == 1
            else f"{record.file_hash} {record.id.name}"
        )
        if key in gone:
            pairs.append((gone[key], record.text_hash))
    return tuple(pairs)


def _scope(within: Collection[str] | None) -> Callable[[str], bool]:
    if within is None:
        return lambda _path: True
    limits = {PurePosixPath(path) for path in within}

    def is_below_a_limit(path: str) -> bool:
        candidate = PurePosixPath(path)
        return candidate in limits or not limits.isdisjoint(candidate.parents)

    return is_below_a_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The result of a sync.

    Attributes:
        added: Tools that are new.
        updated: Tools whose file changed.
        removed: Tools that are gone.
        unchanged: Tools that needed no change.
        issues: Files that were left out, with the reasons.
        rescan: Paths to scan again without known stamps, because another process changed their
            entries between the scan and the sync. Nearly always empty.
        duration: Seconds that the sync took, without the scan.
    """

    added: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    issues: tuple[ScanIssue, ...] = ()
    rescan: tuple[str, ...] = ()
    duration: float = 0.0


def apply_plan(connection: apsw.Connection, plan: SyncPlan) -> None:
    """Apply a plan inside the caller's write transaction."""
    changed = [*plan.added, *plan.updated, *plan.reread]
    connection.executemany(
        "UPDATE entries SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE id = ?",
        ((*stamp_columns(stamp), id_) for id_, stamp in plan.touched.items()),
    )
    if not (changed or plan.removed):
        return
    tables = writable_tables(connection)
    # A row whose file changed must not be found by the meaning of its old text. A tool that a sync
    # of some paths adds may have a row, with a path elsewhere.
    added = plan.added if tables else ()
    held = connection.executemany(
        "SELECT id FROM entries WHERE id = ?", ((str(record.id),) for record in added)
    )
    stale = [
        *(str(id_) for (id_,) in held),
        *(str(record.id) for record in plan.updated),
        *plan.removed,
    ]
    for table in tables:
        forget(connection, table, stale)
    _keep_vectors_of_moved(connection, plan)
    connection.executemany("DELETE FROM entries WHERE id = ?", ((id_,) for id_ in plan.removed))
    connection.executemany(_UPSERT, map(row_values, changed))
    filled = [*(str(record.id) for record in changed), *_with_text(connection, plan.moved)]
    for table in tables:
        # If only the format of the text has changed, the old vector is used until there is a new
        # one.
        forget_superseded(connection, table, [str(record.id) for record in plan.reread])
        fill(connection, table, filled)
        close_holes(connection, table)
    set_meta(connection, CHANGED_AT, repr(time.time()))
    bump_generation(connection)


def _keep_vectors_of_moved(connection: apsw.Connection, plan: SyncPlan) -> None:
    """Pass on the vectors of removed files to new files with the same content.

    A tool's text includes its name and category, so a renamed tool would be embedded again,
    although its meaning is nearly the same.
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

    A scan that is committed in batches adds them before it removes their old paths.
    """
    rows = connection.executemany(
        "SELECT id FROM entries WHERE text_hash = ?", ((text_hash,) for _, text_hash in moved)
    )
    return [str(id_) for (id_,) in rows]
