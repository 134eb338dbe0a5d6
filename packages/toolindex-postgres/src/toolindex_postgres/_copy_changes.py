"""Bringing a copy to the state of the tree on the server, by its changes or as a whole.

Everything can be repeated: an interrupted update is completed the next time.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from toolindex import ToolFilter
from toolscan import ScanReport

from toolindex_postgres import _tree as tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolindex import ToolStore
    from toolscan import ToolRecord

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._tree import LeftOut, State, Vectors

_EVERY = ToolFilter()
# If nothing was ever synced, the contents of the copy are not from this tree.
_NO_READER = ""
_BEFORE_ALL = -(1 << 63)


def follow(
    copy: ToolStore,
    connection: Connection,
    now: State,
    *,
    since: int | None,
    left_out: Mapping[str, str],
) -> LeftOut:
    """Make a copy equal to the tree; return which rows of the server were left out, and why.

    Args:
        copy: The copy; nobody else changes it meanwhile.
        connection: A connection to the server, inside a transaction.
        now: The state of the tree in this transaction.
        since: The copy's state, None if it is unknown.
        left_out: Which rows were left out in that state.
    """
    out = dict(left_out)
    is_known = since is not None and tree.knows(connection, now.tree, since)
    if since is None or not is_known or not _is_of_same_reader(copy, now):
        out.clear()
        _compare(copy, connection, now, left_out=out)
        return out
    changes = tree.delta(connection, now.tree, since, out)
    if changes is None:
        _compare(copy, connection, now, since=since, left_out=out)
        return out
    ids = [*(str(record.id) for record in changes.changed), *changes.removed]
    with copy.reading() as reader:
        paths = {id_: entry.path for id_, entry in reader.entries(ids).items()}
        every = reader.ids(_EVERY) if changes.aliases else ()
    moved = [it for it in changes.changed if paths.get(str(it.id), it.path) != it.path]
    if moved:
        # The changes do not include other tools of the old file.
        _compare(copy, connection, now, since=since, left_out=out)
        return out
    reader_version = now.reader_version or _NO_READER
    within = {record.path for record in changes.changed}
    gone = {paths[id_] for id_ in changes.removed if id_ in paths}
    hashes = set(changes.removed.values())
    if any(record.file_hash in hashes for record in changes.changed):
        # A single sync would take all of these for renamed files, but some may have been removed
        # and restored. The host that synced them knew, and stored the vectors to keep.
        _sync(copy, changes.changed, reader_version, within)
        _sync(copy, (), reader_version, gone - within)
    else:
        _sync(copy, changes.changed, reader_version, within | gone)
    if changes.aliases:
        new = [str(record.id) for record in changes.changed]
        keep = {*every, *new} - set(changes.aliases)
        copy.annotate(changes.aliases, keep=keep)
    put_vectors(copy, tree.vectors_since(connection, now.tree, since, out))
    return out


def _sync(
    copy: ToolStore, records: Sequence[ToolRecord], reader_version: str, within: set[str]
) -> None:
    if within:
        report = ScanReport(records=tuple(records))
        copy.sync(report, reader_version=reader_version, within=sorted(within))


def put_vectors(copy: ToolStore, vectors: Iterable[Vectors]) -> None:
    """Add vectors to a copy, in the order in which they were stored."""
    for model, by_hash in vectors:
        copy.put_vectors(model, by_hash)


def _is_of_same_reader(copy: ToolStore, now: State) -> bool:
    if now.reader_version is None:
        return True
    held = copy.stored(reader_version=now.reader_version, within=())
    return held.is_current and held.is_complete == now.is_complete


def _compare(
    copy: ToolStore,
    connection: Connection,
    now: State,
    *,
    since: int = _BEFORE_ALL,
    left_out: LeftOut,
) -> None:
    """Make a copy equal to the tree in portions; it has the vectors of the state `since`."""
    reader_version = now.reader_version or _NO_READER
    theirs = _by_path(tree.listing(connection, now.tree, left_out))
    held = copy.stored(reader_version=reader_version)
    mine = _by_path({id_: (it.path, it.file_hash) for id_, it in held.entries.items()})
    same = {path for path in theirs if held.is_current and mine.get(path) == theirs[path]}
    new = tree.portions(connection, now.tree, theirs.keys() - same, left_out)
    # Records by an older version of the reader are all replaced.
    known = () if held.is_current else tuple(chain.from_iterable(new))
    read = set(same)
    # Tools are added before others are removed, so that files are not taken for renamed ones, as
    # above. They are added in batches, so that an interrupted first copy can be continued.
    for portion in [known] if known else new:
        paths = {record.path for record in portion}
        _sync(copy, portion, reader_version, paths)
        read |= paths
    if theirs or mine or now.is_complete:
        copy.sync(
            ScanReport(records=known, unchanged=() if known else tuple(sorted(read))),
            reader_version=reader_version,
            within=None if now.is_complete else sorted({*theirs, *mine}),
        )
    copy.annotate(tree.aliases_of_all(connection, now.tree, left_out))
    put_vectors(copy, tree.vectors_since(connection, now.tree, since, left_out))


def _by_path(entries: Mapping[str, tuple[str, str]]) -> Mapping[str, Mapping[str, str]]:
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for id_, (path, file_hash) in entries.items():
        found[path][id_] = file_hash
    return found
