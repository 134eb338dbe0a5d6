"""Checking the watcher: whether it notices a change, and has enough watches for all folders."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytools_hybrid.reports.doctor._finding import Verdict, failed, fine, warning

if TYPE_CHECKING:
    from toolwatch import ChangeBatch

    from pytools_hybrid.settings import Roots

_PATIENCE_SECONDS = 8.0
_LOOKING_SECONDS = 5.0
_BETWEEN_SECONDS = 0.5
_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
_MOST_FOLDERS = 200_000
_ENOUGH = 524_288
_NAME = "_pytools_doctor_{}.txt"


def look_at_watching(
    roots: Roots | None,
    *,
    is_wanted: bool,
    database: Path | None = None,
    limit: Path = _LIMIT,
    seconds: float = _LOOKING_SECONDS,
) -> Verdict:
    """Check that a changed file is noticed, with each method by which the trees are watched.

    Nothing is written to a tree. Files are written to a temporary folder beside the index, or to
    the system's temporary folder.
    """
    if not is_wanted:
        return fine("turned off (PYTOOLS_WATCH): a server only updates the index when it starts")
    polled: list[str] = []
    for root in roots or ():
        try:
            if root.is_dir() and _is_polled(root, seconds):
                polled.append(str(root))
        except TimeoutError:
            return warning(
                f"{root} has so many folders that they were not scanned within {seconds:g} s; "
                "use a root that contains little but tools",
            )
    ways = {None, True} if polled else {None}
    with TemporaryDirectory(prefix="pytools-doctor-", dir=_beside(database, roots)) as folder:
        noticed = {way: _notice(Path(folder), polling=way) for way in ways}
    if (first := noticed[None]) is None or None in noticed.values():
        return failed(
            f"a new file in a temporary folder was not noticed within {_PATIENCE_SECONDS:g} s",
            "PYTOOLS_WATCH=false pytools-hybrid serve",
        )
    seconds, batch = first
    shown = f"a new file is noticed after {1000 * seconds:.0f} ms"
    if batch.polling:
        return warning(
            f"{shown}, by polling: the system sends no notifications",
            "sudo sysctl fs.inotify.max_user_instances=512",
        )
    if (looked := noticed.get(True)) is not None:
        return warning(
            f"{shown}; the system cannot watch everything below {', '.join(polled)}, so that is "
            f"polled, and a new file there is noticed after {1000 * looked[0]:.0f} ms",
        )
    return _with_limit(shown, roots, limit)


def _beside(database: Path | None, roots: Roots | None) -> Path | None:
    """Return the folder of the index if it is writable and outside all trees."""
    if database is None or not os.access(database.parent, os.W_OK | os.X_OK):
        return None
    folder = Path(os.path.realpath(database.parent))
    trees = {Path(os.path.realpath(root)) for root in roots or ()}
    return None if trees.intersection((folder, *folder.parents)) else folder


def _is_polled(root: Path, seconds: float) -> bool:
    """Return whether a tree is polled, without writing to it.

    Raises:
        TimeoutError: The tree is so large that the answer takes too long.
    """
    from toolwatch import watch_tools

    stop = threading.Event()
    deadline = time.perf_counter() + seconds
    answers: SimpleQueue[bool | Exception] = SimpleQueue()

    def look() -> None:
        try:
            with closing(watch_tools(root, stop=stop)) as batches:
                answers.put(next(batches).polling)
        except Exception as error:  # noqa: BLE001 - raised by who waits
            answers.put(error)

    threading.Thread(target=look, name="doctor's look", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    finally:
        stop.set()
    if isinstance(answer, Exception):
        raise answer
    if time.perf_counter() > deadline:
        raise TimeoutError
    return answer


def _with_limit(shown: str, roots: Roots | None, limit: Path) -> Verdict:
    try:
        allowed = int(limit.read_text("ascii"))
    except (OSError, ValueError):
        return fine(shown)
    folders = sum(_folders(root) for root in roots or ())
    counted = f"{folders} of at most {allowed} folders to watch"
    if folders > 0.8 * allowed:
        return warning(
            f"{shown}; {counted}: further folders are polled",
            f"sudo sysctl fs.inotify.max_user_watches={max(_ENOUGH, 4 * folders)}",
        )
    return fine(f"{shown}; {counted}")


def _notice(folder: Path, *, polling: bool | None) -> tuple[float, ChangeBatch] | None:
    """Watch a folder, write a file to it, and return how long the watcher took to notice it."""
    from toolwatch import watch_tools

    stop = threading.Event()
    name = _NAME.format(os.getpid())
    batches: list[tuple[float, ChangeBatch]] = []

    def watch() -> None:
        for batch in watch_tools(folder, stop=stop, polling=polling):
            # A watch may begin with a batch for a full rescan, which does not name the file.
            if name in map(str, batch.paths):
                batches.append((time.perf_counter(), batch))
                stop.set()

    watching = threading.Thread(target=watch, name="doctor's watch", daemon=True)
    watching.start()
    changed = deadline = 0.0
    try:
        deadline = time.perf_counter() + _PATIENCE_SECONDS
        while not stop.is_set() and time.perf_counter() < deadline and watching.is_alive():
            # The first file may be written before the watch has begun.
            changed = time.perf_counter()
            (folder / name).write_text(str(time.perf_counter_ns()), encoding="ascii")
            stop.wait(_BETWEEN_SECONDS)
    finally:
        stop.set()
        watching.join(timeout=1.0)
    return (batches[0][0] - changed, batches[0][1]) if batches else None


def _folders(root: Path) -> int:
    count = 0
    for _ in os.walk(root):
        count += 1
        if count >= _MOST_FOLDERS:
            break
    return count
