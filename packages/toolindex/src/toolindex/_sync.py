"""Bringing the index up to date with the files: planning the changes, and applying them.

What is stored about files is read once, compared with a scan without access to the database or the
disk, and validated before use. The plan is applied in one write transaction, or not at all.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, cast

from toolindex._meta import (
    CHANGED_AT,
    GENERATION,
    bump_generation,
    get_number,
    is_complete,
    is_current,
    set_meta,
)
from toolindex._rows import UnreadableRowError, alias_words, row_values, stamp_columns, to_stamp
from toolindex._vectors import clear, compact, fill, vectors_changed, writable_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import apsw
    from toolscan import ScanIssue, ScanReport, ToolRecord

    from toolindex._rows import Stamp

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
_WITH_IDS = "SELECT rowid FROM entries WHERE id IN (SELECT value FROM json_each(?))"


class StoredEntry(NamedTuple):
    """What is stored about one tool's file: values of `entries`, by column."""

    path: str
    id: str
    file_hash: str
    size: int | None
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None

    @property
    def stamp(self) -> Stamp | None:
        """The file's stamp from the file system, or None if that cannot be trusted."""
        return to_stamp(*self[3:])


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """What the index stores about all files, or those at some paths, at one moment.

    Pass `stamps` and `hashes` to `toolscan.scan(known=…, hashes=…)`, and the object itself to
    `ToolStore.sync`, which then need not read it again.

    Attributes:
        rows: The values of `StoredEntry`.
        generation: The state of the index that was read.
        within: The paths, or None for all.
        is_current: Whether the current version of the reader made all entries; if not, no stamps
            are known.
        is_complete: Whether a whole tree has been synced since the index was created.
    """

    rows: Sequence[tuple[str, str, str, int | None, int | None, int | None, int | None]] = field(
        repr=False
    )
    generation: int
    within: frozenset[str] | None = None
    is_current: bool = True
    is_complete: bool = True

    @property
    def stamps(self) -> dict[str, Stamp]:
        """The stamps, by path, of files that need not be read if their stamps are the same."""
        rows = self.rows if self.is_current else ()
        return {row[0]: stamp for row in rows if (stamp := to_stamp(*row[3:])) is not None}

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes, by path, of files that need not be parsed if their content is the same."""
        return {row[0]: row[2] for row in self.rows} if self.is_current else {}

    @property
    def entries(self) -> dict[str, StoredEntry]:
        """The entries by id."""
        return {row[1]: StoredEntry(*row) for row in self.rows}

    def is_exactly(self, paths: Collection[str]) -> bool:
        return {row[0] for row in self.rows} == set(paths)

    def plan(self, scanned: ScanReport) -> SyncPlan:
        """Compare these files with a scan of the same paths.

        Entries elsewhere are left alone. If the version of the reader has changed, every record
        counts as new. Applying the plan twice is the same as once.
        """
        stored, passed_over = self.entries, frozenset(scanned.unchanged)
        limits = None if self.within is None else set(map(PurePosixPath, self.within))
        rescan = set(passed_over)
        records = {str(record.id): record for record in scanned.records}
        added: list[ToolRecord] = []
        updated: list[ToolRecord] = []
        reread: list[ToolRecord] = []
        touched: dict[str, Stamp | None] = {}
        unchanged = 0
        for id_, record in records.items():
            entry = stored.get(id_)
            if entry is None:
                added.append(record)
            elif entry.file_hash != record.file_hash or entry.path != record.path:
                updated.append(record)
            elif not self.is_current:
                reread.append(record)
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
                if self.is_current:
                    rescan.discard(entry.path)
            elif id_ not in records and (limits is None or _is_below(entry.path, limits)):
                removed.append(id_)
        return SyncPlan(
            added=tuple(added),
            updated=tuple(updated),
            reread=tuple(reread),
            touched=touched,
            removed=tuple(sorted(removed)),
            moved=_moved(stored, removed, scanned.records),
            unchanged=unchanged,
            rescan=tuple(sorted(rescan)),
        )


def stored_files(
    connection: apsw.Connection, *, reader_version: str, within: Collection[str] | None
) -> StoredFiles:
    """Read what `ToolStore.stored` returns, inside the caller's transaction."""
    limits, columns = _normal(within), ", ".join(StoredEntry._fields)
    if limits is None:
        rows = connection.execute(f"SELECT {columns} FROM entries")  # noqa: S608 - constants
    else:
        # As one JSON value, which allows any number of paths. "0" is the character after "/".
        rows = connection.execute(
            f"SELECT {columns} FROM entries "  # noqa: S608 - constants
            "WHERE path IN (SELECT value FROM json_each(?1)) "
            f"UNION SELECT {columns} FROM (SELECT value AS folder FROM json_each(?1)) "
            # Otherwise SQLite would read all entries and look up the folder of each.
            "CROSS JOIN entries ON path > folder || '/' AND path < folder || '0'",
            (json.dumps(sorted(limits)),),
        )
    found = cast("list[StoredEntry]", rows.fetchall())
    if not all(isinstance(it, str) for row in found for it in row[:3]):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnreadableRowError("path")
    return StoredFiles(
        rows=found,
        generation=get_number(connection, GENERATION),
        within=limits,
        is_current=is_current(connection, reader_version),
        is_complete=is_complete(connection),
    )


def is_unchanged(
    stored: StoredFiles,
    connection: apsw.Connection,
    reader_version: str,
    within: Collection[str] | None,
) -> bool:
    """Return whether reading again for these paths and this version would return the same."""
    return (
        stored.generation == get_number(connection, GENERATION)
        and stored.is_current == is_current(connection, reader_version)
        and stored.is_complete == is_complete(connection)
        and stored.within == _normal(within)
    )


def _normal(within: Collection[str] | None) -> frozenset[str] | None:
    limits = None if within is None else frozenset(str(PurePosixPath(path)) for path in within)
    return None if limits is None or "." in limits else limits


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

    @property
    def changed(self) -> list[ToolRecord]:
        return [*self.added, *self.updated, *self.reread]


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


def _is_below(path: str, limits: Collection[PurePosixPath]) -> bool:
    candidate = PurePosixPath(path)
    return candidate in limits or not set(candidate.parents).isdisjoint(limits)


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
    changed = plan.changed
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
        clear(connection, table, _WITH_IDS, (json.dumps(stale),))
    _keep_vectors_of_moved(connection, plan)
    connection.executemany("DELETE FROM entries WHERE id = ?", ((id_,) for id_ in plan.removed))
    connection.executemany(_UPSERT, map(row_values, changed))
    filled = [*(str(record.id) for record in changed), *_with_text(connection, plan.moved)]
    reread = [str(record.id) for record in plan.reread]
    for table in tables:
        # If only the format of the text has changed, the old vector is used until there is a new
        # one.
        renewed = (
            f"{_WITH_IDS} AND text_hash IN (SELECT text_hash FROM embeddings WHERE model_id = ?)"  # noqa: S608
        )
        clear(connection, table, renewed, (json.dumps(reread), table.model_id))
        fill(connection, table, _WITH_IDS, (json.dumps(filled),))
        compact(connection, table)
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


def changed_aliases(
    connection: apsw.Connection, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str]
) -> dict[str, Sequence[str]]:
    """Return the new aliases, by id, of the tools whose aliases have to change.

    The arguments are those of `ToolStore.annotate`.
    """
    kept = frozenset(keep)
    rows = connection.execute("SELECT id, aliases FROM entries WHERE aliases != '[]'")
    held = {id_: texts for id_, texts in rows if id_ not in kept}
    wanted = {id_: _encodable(texts) for id_, texts in aliases.items() if id_ not in kept}
    changed = [id_ for id_, texts in wanted.items() if held.get(id_, "[]") != _to_json(texts)]
    # As one JSON value, which allows any number of ids, and any string.
    existing = connection.execute(
        "SELECT id FROM entries WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(changed),),
    )
    lost: dict[str, Sequence[str]] = {id_: () for id_ in held if id_ not in wanted}
    return lost | {id_: wanted[id_] for (id_,) in existing}


def apply_aliases(connection: apsw.Connection, changed: Mapping[str, Sequence[str]]) -> None:
    """Set the aliases of some tools inside the caller's write transaction."""
    connection.executemany(
        "UPDATE entries SET aliases = ?, alias_words = ? WHERE id = ?",
        ((_to_json(texts), alias_words(texts), id_) for id_, texts in changed.items()),
    )
    bump_generation(connection)


def _to_json(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)


def _encodable(texts: Sequence[str]) -> list[str]:
    """Replace lone surrogates, which no database can store."""
    return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
