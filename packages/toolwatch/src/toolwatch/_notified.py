"""Following a root by the notifications of Linux."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolwatch._ignore import is_noise
from toolwatch._inotify import Mask
from toolwatch._mounts import silent_file_system
from toolwatch._notifier import Folder
from toolwatch._tree import (
    MOST_NAMES,
    Changes,
    NotificationError,
    RootLostError,
    identity_of,
    join,
)

if TYPE_CHECKING:
    from toolwatch._inotify import Event
    from toolwatch._notifier import Notifier

__all__ = ["NotifiedTree"]

_CHECK_SECONDS = 0.1
_CHECK_SHARE = 50
"""What checks may cost: one part in so many of the time."""

_UNREADABLE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG}
)
"""Why a folder is not followed: each of these ends with a change that is announced."""

_ENTRIES = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO


class _Place(NamedTuple):
    """Where a folder may have come, gone, or been replaced."""

    parent: Folder
    name: str


class NotifiedTree:
    """Everything below a root, symbolic links to folders included, without looking through it.

    Each folder is watched before it is listed, and its name is among the changes, so whatever
    comes into it is either announced or found by whoever looks. What happens on the way to the
    root, or to where a link leads, is announced to nobody: that is compared at intervals.
    """

    polling = False

    def __init__(self, root: str, notifier: Notifier, *, anywhere: bool = False) -> None:
        """Watch all folders there are.

        Args:
            root: Its absolute path.
            notifier: Where to watch them.
            anywhere: Whether to rely on notifications whatever the file system is.

        Raises:
            NotificationError: The system cannot, or will not reliably, announce the changes.
            OSError: The root is gone, or cannot be read.
        """
        self._root = root
        self._notifier = notifier
        self._anywhere = anywhere
        self._changed: set[str] = set()
        self._places: dict[_Place, None] = {}
        self._with_links: dict[Folder, None] = {}
        self._crowded = False
        self._lost = False
        self._top = Folder(self, None, "", identity_of(os.stat(root)))  # noqa: PTH116
        self.due = 0.0
        self._refuse_silence(self._top)
        try:
            self._grow([self._top])
        except BaseException:
            self.close()
            raise

    def collect(self, now: float) -> Changes:
        """Give what was heard since the last call, with all new folders being watched."""
        if now >= self.due:
            self._check(now)
        while self._places and not self._lost:
            place, _ = self._places.popitem()
            if place.parent.watch is not None:
                self._look_at(place)
        if self._lost:
            raise RootLostError
        changed, self._changed = self._changed, set()
        return Changes(changed, everything=bool(changed) and self._crowded)

    def close(self) -> None:
        """Stop watching."""
        self._cut(self._top)

    def heard(self, folder: Folder, event: Event) -> None:
        """Note what an event says of a folder of this tree."""
        if event.name:
            is_folder = bool(event.mask & Mask.ISDIR)
            if is_noise(event.name, folder=is_folder):
                return
            self._changed.add(join(folder.path, event.name))
            # What in a folder could not be read may be readable with its new mode.
            if event.mask & _ENTRIES or (is_folder and event.mask & Mask.ATTRIB):
                self._places[_Place(folder, event.name)] = None
        elif folder.parent is None:
            self._lost = True
        else:
            self._changed.add(folder.path)
            self._places[_Place(folder.parent, folder.name)] = None

    def _look_at(self, place: _Place) -> None:
        """Watch what is at a place now, instead of what was."""
        parent, name = place
        if old := parent.children.pop(name, None):
            self._cut(old)
        parent.links.pop(name, None)
        self._grow(self._found(parent, name))

    def _grow(self, pending: list[Folder]) -> None:
        """Watch folders and all that they hold."""
        while pending:
            folder = pending.pop()
            path = f"{self._root}/{folder.path}"
            try:
                names = self._notifier.add(folder, path)
                entries = os.listdir(path)  # noqa: PTH208
            except OSError as error:
                self._drop(folder, error)
                continue
            if names > MOST_NAMES:
                self._crowded = True
                continue
            for name in entries:
                pending += self._found(folder, name)

    def _found(self, parent: Folder, name: str) -> list[Folder]:
        """Give the folder that an entry is or leads to, if it is one to be watched."""
        path = f"{self._root}/{join(parent.path, name)}"
        try:
            status = os.lstat(path)
        except OSError:
            return []
        if stat.S_ISLNK(status.st_mode):
            if is_noise(name, folder=False):
                return []
            led_to = _status(path)
            parent.links[name] = _signature(led_to)
            self._with_links[parent] = None
            if led_to is None:
                return []
            status = led_to
        if not stat.S_ISDIR(status.st_mode) or is_noise(name, folder=True):
            return []
        folder = Folder(self, parent, name, identity_of(status))
        if folder.identity in folder.above:
            return []
        self._refuse_silence(folder)
        parent.children[name] = folder
        return [folder]

    def _refuse_silence(self, folder: Folder) -> None:
        device = folder.identity[0]
        if self._anywhere or (folder.parent and folder.parent.identity[0] == device):
            return
        kind = silent_file_system(device)
        if kind is not None:
            where = f"{self._root}/{folder.path}".rstrip("/")
            raise NotificationError(f"{where} is on {kind}, which announces no one else's changes")

    def _check(self, now: float) -> None:
        """Compare what nobody announces: where the root and the links lead."""
        status = _status(self._root)
        if status is None or identity_of(status) != self._top.identity:
            raise RootLostError
        count = 1
        for folder in tuple(self._with_links):
            for name, known in tuple(folder.links.items()):
                count += 1
                path = join(folder.path, name)
                signature = _signature(_status(f"{self._root}/{path}"))
                if signature != known:
                    self._changed.add(path)
                    self._places[_Place(folder, name)] = None
        # A status takes some ten microseconds at the worst; many links are checked less often.
        self.due = now + max(_CHECK_SECONDS, count * 1e-5 * _CHECK_SHARE)

    def _cut(self, folder: Folder) -> None:
        """Stop watching a folder and all that it holds."""
        pending = [folder]
        while pending:
            gone = pending.pop()
            pending += gone.children.values()
            gone.children = {}
            self._with_links.pop(gone, None)
            self._notifier.remove(gone)

    def _drop(self, folder: Folder, error: OSError) -> None:
        """Do without a folder that cannot be watched or listed now."""
        if error.errno not in _UNREADABLE:
            reason = f"{error.filename} cannot be watched ({error.strerror})"
            raise NotificationError(reason) from error
        if folder.parent is None:
            raise error
        self._notifier.remove(folder)
        folder.parent.children.pop(folder.name, None)


def _status(path: str) -> os.stat_result | None:
    with suppress(OSError, ValueError):
        return os.stat(path)  # noqa: PTH116
    return None


def _signature(status: os.stat_result | None) -> tuple[int, ...] | None:
    """Give what differs when a link leads to something else, or to a file with other content."""
    if status is None:
        return None
    if stat.S_ISDIR(status.st_mode):
        return status.st_mode, *identity_of(status)
    return (
        status.st_mode,
        *identity_of(status),
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
