"""The known content of a root, and how it differs from the disk."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolwatch._ignore import is_noise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_MOST_NAMES = 16
"""Under how many names a folder is followed; beyond that, changes may be reported anywhere.

Links that lead to each other give a folder an astronomical number of names.
"""

_COARSE_NS = 10_000_000
_YOUNG_NS = 2_500_000_000

Identity = tuple[int, int]


class _Folder:
    """A folder under one of its names: its identity, and the marks of its entries."""

    __slots__ = ("entries", "identity")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.entries: dict[str, int] = {}


class _Link(NamedTuple):
    """The target of a symbolic link: the folder, if it is one, and the target's mark."""

    mark: int
    identity: Identity | None
    real: str | None


class Content:
    """All files and folders below a root, including those behind symbolic links to folders.

    Paths are relative to the root, with `/`; the root itself is the empty string.

    Attributes:
        troubled: The folders that cannot be listed, with the reason.
        links: The symbolic links.
        young: The folders with a file whose next change might go unnoticed; they are checked again.
    """

    def __init__(self, root: str) -> None:
        """Read the root for the first time.

        Raises:
            OSError: The root is not a folder.
        """
        self.troubled: dict[str, OSError] = {}
        self.links: dict[str, _Link] = {}
        self.young: set[str] = set()
        self._root = root
        self._folders: dict[str, _Folder] = {}
        self._names: dict[Identity, set[str]] = {}
        self._refused: set[str] = set()
        self.look_through()

    @property
    def crowded(self) -> bool:
        """Whether links give some folder too many names to follow all of them."""
        return bool(self._refused)

    def targets(self) -> frozenset[str]:
        """Return the real paths of the folders that contain everything, links resolved."""
        real = {link.real for link in self.links.values() if link.real is not None}
        real.add(os.path.realpath(self._root))
        return frozenset(path for path in real if real.isdisjoint(map(str, Path(path).parents)))

    def names_of(self, path: str) -> Collection[str]:
        """Return the names under which the folder at an absolute path is known."""
        status = _status(path)
        return () if status is None else self._names.get(_identity_of(status), ())

    def turned(self) -> set[str]:
        """Return the folders that contain a link whose target has changed."""
        now = time.time_ns()
        return {
            parent_of(path)
            for path, link in self.links.items()
            if (link.mark, link.identity) != _seen(_status(f"{self._root}/{path}"), now)
        }

    def look_through(self) -> set[str]:
        """Read everything, and return the paths that were added, changed or removed.

        Raises:
            OSError: The root is not a folder any more.
        """
        status = os.stat(self._root)  # noqa: PTH116
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(self._root)
        self._place("", _identity_of(status))
        return self.look([""], deep=True)

    def look(self, folders: Iterable[str], *, deep: bool = False) -> set[str]:
        """Check the entries of some folders, and everything in the new folders among them.

        Args:
            folders: The folders; unknown ones are ignored.
            deep: Whether to check everything in the known ones too.

        Returns:
            The paths that were added, changed or removed.
        """
        changed: set[str] = set()
        now = time.time_ns()
        pending = [(path, deep) for path in folders]
        while pending:
            path, is_deep = pending.pop()
            folder = self._folders.get(path)
            if folder is None:
                continue
            known, folder.entries = folder.entries, {}
            self.young.discard(path)
            for entry in self._listed(path, changed):
                child = join(path, entry.name)
                mark, identity = _seen(_status_of(entry), now)
                if is_noise(entry.name, folder=identity is not None):
                    continue
                folder.entries[entry.name] = mark
                if known.pop(entry.name, None) != mark:
                    changed.add(child)
                if mark & 1:
                    self.young.add(path)
                if identity is not None and self._place(child, identity):
                    pending.append((child, True))
                elif identity is None and child in self._folders:
                    self._forget(child)
                elif is_deep or child in self.troubled:
                    pending.append((child, is_deep))
                if entry.is_symlink():
                    self._note_link(child, mark, identity)
                elif child in self.links:
                    del self.links[child]
            for name in known:
                changed.add(join(path, name))
                self._forget(join(path, name))
        return changed

    def _listed(self, path: str, changed: set[str]) -> list[os.DirEntry[str]]:
        before = self.troubled.pop(path, None)
        try:
            with os.scandir(f"{self._root}/{path}") as listing:
                entries = list(listing)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                self.troubled[path] = error
            if before is None or before.errno != error.errno:
                changed.add(path)
            return []
        if before is not None:
            changed.add(path)
        return entries

    def _note_link(self, path: str, mark: int, identity: Identity | None) -> None:
        known = self.links.get(path)
        if known is None or (known.mark, known.identity) != (mark, identity):
            real = os.path.realpath(f"{self._root}/{path}") if path in self._folders else None
            self.links[path] = _Link(mark, identity, real)

    def _place(self, path: str, identity: Identity) -> bool:
        """Record which folder is at a path, and return whether it has changed.

        A folder that is also one of its own parents is not followed, because that is a link loop.
        """
        known = self._folders.get(path)
        if known is not None and known.identity == identity:
            return False
        if path and any(self._folders[above].identity == identity for above in _above(path)):
            self._forget(path)
            return False
        names = self._names.setdefault(identity, set())
        if len(names) >= _MOST_NAMES:
            self._refused.add(path)
            return False
        self._refused.discard(path)
        if known is None:
            self._folders[path] = _Folder(identity)
        else:
            self._unname(path, known)
            known.identity = identity
        names.add(path)
        return True

    def _forget(self, path: str) -> None:
        """Forget an entry, and its contents if it is a folder."""
        pending = [path]
        while pending:
            gone = pending.pop()
            self.links.pop(gone, None)
            self.troubled.pop(gone, None)
            self.young.discard(gone)
            self._refused.discard(gone)
            if (folder := self._folders.pop(gone, None)) is not None:
                self._unname(gone, folder)
                pending += [join(gone, name) for name in folder.entries]

    def _unname(self, path: str, folder: _Folder) -> None:
        names = self._names[folder.identity]
        names.discard(path)
        if not names:
            del self._names[folder.identity]


def join(folder: str, name: str) -> str:
    """Return the path of an entry of a folder."""
    return f"{folder}/{name}" if folder else name


def parent_of(path: str) -> str:
    """Return the folder that an entry is in."""
    return path.rpartition("/")[0]


def _above(path: str) -> Iterator[str]:
    while path:
        path = parent_of(path)
        yield path


def _status(path: str) -> os.stat_result | None:
    with suppress(OSError, ValueError):
        return os.stat(path)  # noqa: PTH116
    return None


def _status_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of an entry or its target; a link may be broken."""
    with suppress(OSError):
        status = entry.stat()
        # Windows lists folders without their inode numbers.
        return status if status.st_ino else os.stat(entry.path)  # noqa: PTH116
    return None


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _seen(status: os.stat_result | None, now: int) -> tuple[int, Identity | None]:
    """Return a mark that differs after a change, and the folder's identity, if it is one.

    The inode of a file is not included, because on some network file systems it changes by itself.
    If times have no fractions, two changes within a second look like one. Such a file is young for
    a while, which makes its mark odd. Becoming older counts as a change, so the file is checked
    once more. A hash takes a sixth of the memory of the values.
    """
    if status is None:
        return 0, None
    if stat.S_ISDIR(status.st_mode):
        return hash((status.st_mode,)) << 1, _identity_of(status)
    times = status.st_mtime_ns, status.st_ctime_ns
    coarse = status.st_mtime_ns % _COARSE_NS == 0
    young = coarse and abs(now - status.st_mtime_ns) < _YOUNG_NS
    return hash((status.st_mode, status.st_size, *times)) << 1 | young, None
