"""Checking the watcher: whether the system can watch the trees, and all of their folders."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pytools_hybrid.reports.doctor._finding import Verdict, fine, warning

if TYPE_CHECKING:
    from pytools_hybrid.settings import Roots

_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
_MOST_FOLDERS = 200_000
_ENOUGH = 524_288


def look_at_watching(roots: Roots | None, *, is_wanted: bool, limit: Path = _LIMIT) -> Verdict:
    """Check that the system reports changes in the trees, without writing to them."""
    if not is_wanted:
        return fine("turned off (PYTOOLS_WATCH): a server only updates the index when it starts")
    polled = [str(root) for root in roots or () if root.is_dir() and _is_polled(root)]
    if polled:
        return warning(
            f"the system cannot watch {', '.join(polled)}; changes are found by polling, within a "
            "second, or later in large trees",
            f"sudo sysctl fs.inotify.max_user_watches={_ENOUGH} fs.inotify.max_user_instances=512",
        )
    try:
        allowed = int(limit.read_text("ascii"))
    except (OSError, ValueError):
        return fine("the system reports changes")
    folders = sum(_folders(root) for root in roots or ())
    message = f"the system reports changes in {folders} of at most {allowed} folders"
    if folders > 0.8 * allowed:
        return warning(
            f"{message}; above that limit, the tree is polled",
            f"sudo sysctl fs.inotify.max_user_watches={max(_ENOUGH, 4 * folders)}",
        )
    return fine(message)


def _is_polled(root: Path) -> bool:
    from toolwatch import watch_tools

    with closing(watch_tools(root)) as batches:
        return next(batches).polling


def _folders(root: Path) -> int:
    count = 0
    for _ in os.walk(root):
        count += 1
        if count >= _MOST_FOLDERS:
            break
    return count
