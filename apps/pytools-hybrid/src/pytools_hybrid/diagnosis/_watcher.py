"""Changes of files: is a real one noticed, and are there enough watches for all folders."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytools_hybrid.diagnosis._finding import failed, fine, warning

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolwatch import ChangeBatch

    from pytools_hybrid.diagnosis._finding import Verdict
    from pytools_hybrid.roots import Roots

__all__ = ["look_at_watching"]

_PATIENCE_SECONDS = 8.0
_BETWEEN_SECONDS = 0.5
_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
_MOST_FOLDERS = 200_000
_ENOUGH = 524_288
# Its beginning keeps it from being taken for a tool.
_NAME = "_pytools_doctor_{}.txt"


def look_at_watching(roots: Roots | None, *, is_wanted: bool, limit: Path = _LIMIT) -> Verdict:
    """Check that the change of a file is noticed: in a temporary folder, and in each tree.

    In a tree, a file is there for less than a millisecond; where that cannot be written, or its
    system announces nothing, it is left alone.

    Args:
        roots: The trees, or None where there are none.
        is_wanted: Whether the settings want files to be watched.
        limit: Where Linux says how many folders can be watched.
    """
    if not is_wanted:
        return fine("switched off (PYTOOLS_WATCH): the index is brought up to date at the start")
    with TemporaryDirectory(prefix="pytools-doctor-") as folder:
        noticed = _notice(Path(folder), _write_and_keep)
    if noticed is None:
        return failed(
            f"a new file in a temporary folder was not noticed within {_PATIENCE_SECONDS:g} s",
            "PYTOOLS_WATCH=false pytools-hybrid serve",
        )
    seconds, batch = noticed
    shown = f"a new file is noticed after {1000 * seconds:.0f} ms"
    if batch.polling:
        return warning(
            f"{shown}, by looking at intervals: the system gives no notifications",
            "sudo sysctl fs.inotify.max_user_instances=512",
        )
    silent = [
        str(root)
        for root in roots or ()
        if root.is_dir()
        and os.access(root, os.W_OK | os.X_OK)
        and _notice(root, _write_and_remove, patience=2.0) is None
    ]
    if silent:
        return warning(
            f"{shown}; below {', '.join(silent)} nothing was announced, so that is looked through "
            "at intervals",
        )
    return _with_limit(shown, roots, limit)


def _with_limit(shown: str, roots: Roots | None, limit: Path) -> Verdict:
    try:
        allowed = int(limit.read_text("ascii"))
    except (OSError, ValueError):
        return fine(shown)
    folders = sum(_folders(root) for root in roots or ())
    counted = f"{folders} of at most {allowed} folders to watch"
    if folders > 0.8 * allowed:
        return warning(
            f"{shown}; {counted}: beyond that, folders are looked through at intervals",
            f"sudo sysctl fs.inotify.max_user_watches={max(_ENOUGH, 4 * folders)}",
        )
    return fine(f"{shown}; {counted}")


def _notice(
    folder: Path, change: Callable[[Path], None], *, patience: float = _PATIENCE_SECONDS
) -> tuple[float, ChangeBatch] | None:
    """Watch a folder, change something in it, and give how long that took to be noticed."""
    from toolwatch import watch_tools

    stop = threading.Event()
    name = _NAME.format(os.getpid())
    batches: list[tuple[float, ChangeBatch]] = []

    def watch() -> None:
        for batch in watch_tools(folder, stop=stop):
            # A watch may begin with a look at everything, which says nothing of the file.
            if name in map(str, batch.paths):
                batches.append((time.perf_counter(), batch))
                stop.set()

    watching = threading.Thread(target=watch, name="doctor's watch", daemon=True)
    watching.start()
    changed = deadline = 0.0
    try:
        deadline = time.perf_counter() + patience
        while not stop.is_set() and time.perf_counter() < deadline and watching.is_alive():
            # The first may come before the watch has begun.
            changed = time.perf_counter()
            change(folder / name)
            stop.wait(_BETWEEN_SECONDS)
    finally:
        stop.set()
        watching.join(timeout=1.0)
    return (batches[0][0] - changed, batches[0][1]) if batches else None


def _write_and_keep(file: Path) -> None:
    file.write_text(str(time.perf_counter_ns()), encoding="ascii")


def _write_and_remove(file: Path) -> None:
    # Nothing can come between the two but the end of the machine.
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.unlink(file)  # noqa: PTH108 - the shortest way
    os.close(descriptor)


def _folders(root: Path) -> int:
    count = 0
    for _ in os.walk(root):
        count += 1
        if count >= _MOST_FOLDERS:
            break
    return count
