"""What to change so that the index equals the files: pure, no database, no disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from toolscan import FileStamp, ScanReport, ToolRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """What the index remembers of one tool's file.

    Attributes:
        id: The tool's id as text.
        path: The file, posix, relative to the root.
        file_hash: SHA-256 of its bytes, in hex.
        stamp: What the file system said of it, or None where that is not to be trusted.
    """

    id: str
    path: str
    file_hash: str
    stamp: FileStamp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The changes that make the index equal to a scan.

    Attributes:
        added: Tools the index does not have.
        updated: Tools whose file changed.
        reread: Tools whose file did not change, but what reads it did.
        touched: Tools whose file holds the same bytes and has another stamp, with the stamp, by
            id.
        removed: Ids of tools that are gone.
        moved: Ids of removed tools, each with the text hash of a tool that was read and whose
            file holds the same bytes.
        unchanged: How many tools need nothing.
        rescan: Paths the scan passed over as known, whose entries the index has lost since, or
            has got from another reader.
    """

    added: tuple[ToolRecord, ...] = ()
    updated: tuple[ToolRecord, ...] = ()
    reread: tuple[ToolRecord, ...] = ()
    touched: Mapping[str, FileStamp | None] = field(default_factory=dict[str, "FileStamp | None"])
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
    """Compare what the index holds with what a scan found.

    Args:
        stored: The index's entries by id.
        scanned: The scan's report.
        within: The paths the scan was limited to (posix, relative to the root; files or
            folders); entries elsewhere are left alone. None means the whole root.
        reread: Take every record as read anew, for when the reader itself has changed.

    Returns:
        The plan; applying it twice is the same as once.
    """
    in_scope = _scope(within)
    passed_over = set(scanned.unchanged)
    records = {str(record.id): record for record in scanned.records}
    added: list[ToolRecord] = []
    updated: list[ToolRecord] = []
    read_again: list[ToolRecord] = []
    touched: dict[str, FileStamp | None] = {}
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
            # What another reader made of the file in the meantime is not what was known.
            if not reread:
                passed_over.discard(entry.path)
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
        rescan=tuple(sorted(passed_over)),
    )


def _moved(
    stored: Mapping[str, StoredEntry], removed: Collection[str], records: Collection[ToolRecord]
) -> tuple[tuple[str, str], ...]:
    """Pair the tools whose files are gone with those that were read from the same bytes."""
    gone = {stored[id_].file_hash: id_ for id_ in removed}
    return tuple(
        (gone[record.file_hash], record.text_hash)
        for record in (records if gone else ())
        if record.file_hash in gone
    )


def _scope(within: Collection[str] | None) -> Callable[[str], bool]:
    if within is None:
        return lambda _path: True
    limits = {PurePosixPath(path) for path in within}

    def is_below_a_limit(path: str) -> bool:
        candidate = PurePosixPath(path)
        return candidate in limits or not limits.isdisjoint(candidate.parents)

    return is_below_a_limit
