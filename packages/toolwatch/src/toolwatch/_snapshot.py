"""All that lies below a root, at one moment, and what differs between two."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolwatch._ignore import is_noise
from toolwatch._tree import MOST_NAMES, Changes, identity_of, join

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Snapshot", "compare", "take_snapshot"]

_COARSE_NS = 10_000_000
_YOUNG_NS = 2_500_000_000

Identity = tuple[int, int]
Signature = tuple[int, ...]


class Snapshot(NamedTuple):
    """What was found below a root.

    Attributes:
        entries: What is different after a change, by path relative to the root.
        linked: The folders that symbolic links lead to: real paths and identities.
        crowded: Whether links give some folder too many names for all of them to be followed.
    """

    entries: dict[str, Signature]
    linked: frozenset[tuple[str, Identity]]
    crowded: bool


class _Folder(NamedTuple):
    path: str
    identity: Identity
    above: tuple[Identity, ...]


def take_snapshot(root: str) -> Snapshot:
    """Look through a root, symbolic links to folders included.

    Raises:
        OSError: The root is no folder (any more).
    """
    top = os.stat(root)  # noqa: PTH116
    if not stat.S_ISDIR(top.st_mode):
        raise NotADirectoryError(root)
    now = time.time_ns()
    entries: dict[str, Signature] = {}
    linked: set[tuple[str, Identity]] = set()
    names: dict[Identity, int] = {}
    pending = [_Folder("", identity_of(top), ())]
    while pending:
        folder = pending.pop()
        names[folder.identity] = names.get(folder.identity, 0) + 1
        if names[folder.identity] > MOST_NAMES:
            continue
        try:
            with os.scandir(f"{root}/{folder.path}") as listing:
                found = list(listing)
        except OSError as error:
            entries[folder.path] = (error.errno or 0,)
            continue
        for entry in found:
            _add(entry, folder, entries, linked, pending, now)
    crowded = any(count > MOST_NAMES for count in names.values())
    return Snapshot(entries, frozenset(linked), crowded)


def _add(
    entry: os.DirEntry[str],
    folder: _Folder,
    entries: dict[str, Signature],
    linked: set[tuple[str, Identity]],
    pending: list[_Folder],
    now: int,
) -> None:
    path = join(folder.path, entry.name)
    status = None
    is_folder = False
    signature: Signature = ()
    with suppress(OSError):
        # A link that leads nowhere has no status; it is an entry all the same.
        status = entry.stat()
        is_folder = stat.S_ISDIR(status.st_mode)
        signature = (status.st_mode,) if is_folder else _signature(status, now)
    if is_noise(entry.name, folder=is_folder):
        return
    entries[path] = signature
    if status is None or not is_folder:
        return
    identity = identity_of(status)
    above = (*folder.above, folder.identity)
    if identity in above:
        return
    if entry.is_symlink():
        linked.add((os.path.realpath(entry.path), identity))
    pending.append(_Folder(path, identity, above))


def _signature(status: os.stat_result, now: int) -> Signature:
    """Give what is different after a change of a file, as far as its status can tell.

    Its inode is left out: on some network file systems it changes by itself. Where times have
    no fractions, two changes in a second look like one: such a file is young for a while, and
    that it is not any more counts as a change, so that it is looked at once more.
    """
    times = status.st_mtime_ns, status.st_ctime_ns
    coarse = status.st_mtime_ns % _COARSE_NS == 0
    young = coarse and abs(now - status.st_mtime_ns) < _YOUNG_NS
    return status.st_mode, status.st_size, *times, young


def compare(before: Snapshot, after: Snapshot) -> Changes:
    """Give what was added, altered or removed between two snapshots."""
    missing = object()
    old, new = before.entries, after.entries
    paths: Iterable[str] = old.keys() | new.keys()
    changed = {path for path in paths if old.get(path, missing) != new.get(path, missing)}
    crowded = before.crowded or after.crowded
    return Changes(changed, everything=bool(changed) and crowded)
