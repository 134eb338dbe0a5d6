"""One queue of notifications for all the folders of a watch."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

from toolwatch._inotify import Inotify, Mask
from toolwatch._tree import NotificationError

if TYPE_CHECKING:
    from toolwatch._inotify import Event

__all__ = ["Folder", "FolderOwner", "Notifier"]


class FolderOwner(Protocol):
    """Hears of what happens to its folders."""

    def heard(self, folder: Folder, event: Event) -> None:
        """Take note of an event; called before anything else is done about it."""
        ...


class Folder:
    """A folder that is watched, under one of its names.

    Attributes:
        owner: Who hears of it.
        path: Its path relative to the root.
        identity: What it was just before it was watched: if it was replaced meanwhile, then
            what is at its path now differs from this.
        above: The identities of the folders it was reached through.
        children: The folders in it that are watched, by name.
        links: The symbolic links in it, with what they led to.
        watch: Its number in the queue; None when it is not watched any more.
    """

    __slots__ = (
        "above",
        "children",
        "identity",
        "links",
        "name",
        "owner",
        "parent",
        "path",
        "watch",
    )

    def __init__(
        self,
        owner: FolderOwner,
        parent: Folder | None,
        name: str,
        identity: tuple[int, int],
    ) -> None:
        self.owner = owner
        self.parent = parent
        self.name = name
        self.identity = identity
        self.path: str = f"{parent.path}/{name}" if parent and parent.path else name
        self.above: tuple[tuple[int, int], ...] = (*parent.above, parent.identity) if parent else ()
        self.children: dict[str, Folder] = {}
        self.links: dict[str, tuple[int, ...] | None] = {}
        self.watch: int | None = None


class Notifier:
    """Tells the owners of folders what happens to them.

    A folder that is reached under several names, from one root or from several, is one folder
    to the kernel: each of its names hears of each event.
    """

    def __init__(self) -> None:
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise NotificationError(_reason(error)) from error
        self._folders: dict[int, set[Folder]] = {}

    def fileno(self) -> int:
        """Give the descriptor that is readable while events wait."""
        return self._inotify.fileno()

    def add(self, folder: Folder, path: str) -> int:
        """Begin to watch a folder, and say under how many names it is watched now.

        Raises:
            NotificationError: The system does not take more folders.
            OSError: There is no such folder, or it cannot be read.
        """
        try:
            watch = self._inotify.add(path)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.ENOMEM}:
                raise NotificationError(_reason(error)) from error
            raise
        folder.watch = watch
        names = self._folders.setdefault(watch, set())
        names.add(folder)
        return sum(name.owner is folder.owner for name in names)

    def remove(self, folder: Folder) -> None:
        """Stop watching a folder under one of its names."""
        watch, folder.watch = folder.watch, None
        if watch is None:
            return
        names = self._folders[watch]
        names.discard(folder)
        if not names:
            del self._folders[watch]
            self._inotify.remove(watch)

    def pass_on(self) -> bool:
        """Tell the owners what waits in the queue, and the caller whether events were lost."""
        overflow = False
        for event in self._inotify.read():
            if event.mask & Mask.OVERFLOW:
                overflow = True
            # The kernel drops the watch of what is gone; its number is not used again.
            ended = event.mask & Mask.IGNORED
            folders = (
                self._folders.pop(event.watch, ()) if ended else self._folders.get(event.watch, ())
            )
            for folder in tuple(folders):
                if ended:
                    folder.watch = None
                folder.owner.heard(folder, event)
        return overflow

    def close(self) -> None:
        """End all watches."""
        self._inotify.close()


def _reason(error: OSError) -> str:
    advice = {
        errno.ENOSPC: "raise fs.inotify.max_user_watches",
        errno.EMFILE: "raise fs.inotify.max_user_instances, or the limit of open files",
    }.get(error.errno or 0, "see inotify(7)")
    return f"the system takes no more watches ({error.strerror}; {advice})"
