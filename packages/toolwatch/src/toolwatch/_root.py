"""One root: what is reported below it, and rescans that find what is not."""

from __future__ import annotations

import logging
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_log = logging.getLogger("toolwatch")

_CHECK_SECONDS = 0.1
"""How often the identity of the root is compared, which costs one `stat`."""

_RESCAN_SECONDS, _POLL_SECONDS = 10.0, 0.5
"""The least time between two rescans, if the system reports changes and if it does not."""

_MAX_PATHS = 1000
"""With more paths than this, a rescan is cheaper, and the system's queue may have overflowed."""

_STREAK, _PAUSE_SECONDS = 4, 0.25
"""After this many batches without a pause between them, the next ones are this far apart."""

_REPOSITORIES = frozenset({".git", ".hg", ".svn"})
_CACHES = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
_IGNORED_FOLDERS = _REPOSITORIES | _CACHES | {".venv", "node_modules"}
_IGNORED_FILES = _IGNORED_FOLDERS | {"4913", ".DS_Store"}
_IGNORED_SUFFIXES = (
    *(".pyc", ".pyo", "~", ".swp", ".swx", ".swo", ".tmp"),
    *("___jb_tmp___", "___jb_old___"),
)
_IGNORED_PREFIXES = (".#", ".goutputstream-", ".nfs", ".fuse_hidden")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """The places below one root to look at again.

    Attributes:
        root: The root, as it was given, made absolute; links in it are not resolved.
        paths: Files and folders below the root that changed, appeared or disappeared, relative to
            it. A folder stands for everything in it.
        rescan: Whether anything below the root may have changed; `paths` is then empty.
        polling: Whether the root is polled, because the system does not report its changes.
    """

    root: Path
    paths: frozenset[PurePosixPath] = frozenset()
    rescan: bool = False
    polling: bool = False


class WatchedRoot:
    """Collects the changes below one root, even if the root itself is moved or replaced.

    Attributes:
        path: The absolute path of the root.
        real_path: The same without links, or an empty string if the root is not a folder.
        is_file: Whether the path is something other than a folder.
        polling: Whether only rescans find its changes.
    """

    def __init__(self, path: Path) -> None:
        """Create without reading anything; the first `check` does that."""
        self.path = path
        self.real_path = ""
        self.is_file = False
        self.polling = False
        self._identity: tuple[int, ...] | None = None
        self._check_at = self._cost = 0.0
        self._rescan_at = float("inf")
        self._paths: set[str] = set()
        self._rescan = True
        self._delivered_at, self._streak = float("-inf"), 0

    def check(self, now: float) -> bool:
        """Return whether the root has become another folder, or has appeared or vanished."""
        if now >= self._rescan_at:
            self._rescan = True
        if now < self._check_at:
            return False
        self._check_at = now + _CHECK_SECONDS
        try:
            status = os.stat(self.path)  # noqa: PTH116
        except OSError:
            status = None
        was_file = self.is_file
        self.is_file = status is not None and not stat.S_ISDIR(status.st_mode)
        if self.is_file and not was_file:
            _log.warning("%s is not a folder; it is watched once it is one", self.path)
        is_folder = status is not None and not self.is_file
        identity = (status.st_dev, status.st_ino, status.st_mode) if status and is_folder else None
        if identity == self._identity:
            return False
        self._identity = identity
        self.real_path = os.path.realpath(self.path) if identity else ""
        return True

    def forget(self) -> None:
        """Let the next `check` take the root for another folder."""
        self._identity, self._check_at = (), 0.0

    def rescan(self) -> None:
        """Let the next batch ask for a rescan."""
        self._rescan = True

    def note(self, path: str, *, is_folder: bool) -> None:
        """Record a change at an absolute path, if it is below the root.

        Where folders have several names through links, watchfiles reports one of them.
        """
        above, name = os.path.split(path)
        if name in _IGNORED_FOLDERS if is_folder else _is_ignored_file(name):
            return
        for folder in {above, os.path.realpath(above)}:
            if folder != self.real_path and not folder.startswith(self.real_path + os.sep):
                continue
            parts = folder[len(self.real_path) :].replace(os.sep, "/").strip("/").split("/")
            if _IGNORED_FOLDERS.isdisjoint(parts):
                self._paths.add(_encodable("/".join([*filter(None, parts), name])))

    def batch(self, now: float) -> ChangeBatch | None:
        """Return the changes, once."""
        pause = _PAUSE_SECONDS if self._streak >= _STREAK else 0.0
        if not (self._rescan or self._paths) or now < self._delivered_at + pause:
            return None
        follows = now - self._delivered_at <= 2 * _PAUSE_SECONDS
        self._streak = self._streak + 1 if follows else 0
        self._delivered_at = now
        paths = self._paths
        rescan = self._rescan or len(paths) > _MAX_PATHS or "" in paths
        self._rescan, self._paths = False, set()
        if rescan:
            self._rescan_at = float("inf")
        return ChangeBatch(
            root=self.path,
            paths=frozenset() if rescan else _topmost(paths),
            rescan=rescan,
            polling=self.polling,
        )

    def rescanned(self, seconds: float) -> None:
        """Schedule the next rescan, given how long the caller took for this one."""
        # If the machine stalled during one of them, that must not delay the next by minutes.
        cost, self._cost = min(seconds, self._cost or seconds), seconds
        least, share = (_POLL_SECONDS, 20) if self.polling else (_RESCAN_SECONDS, 100)
        if self._identity:
            self._rescan_at = time.monotonic() + max(least, share * cost)


def _is_ignored_file(name: str) -> bool:
    """Return whether a name is that of a cache, a repository or an editor's file."""
    return (
        name in _IGNORED_FILES
        or name.endswith(_IGNORED_SUFFIXES)
        or name.startswith(_IGNORED_PREFIXES)
    )


def _encodable(path: str) -> str:
    """Return the path, or its nearest UTF-8 folder, because few programs accept other names."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        return path[: error.start].rpartition("/")[0]
    return path


def _topmost(paths: set[str]) -> frozenset[PurePosixPath]:
    """Remove paths inside a listed folder, which includes them."""
    pure = {PurePosixPath(path) for path in paths}
    return frozenset(path for path in pure if pure.isdisjoint(path.parents))
