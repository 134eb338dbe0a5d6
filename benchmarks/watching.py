"""Measure toolwatch: latency, CPU, memory and a burst of files, each in a separate process.

Run: `uv run python benchmarks/watching.py [--files 10000]`
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from toolwatch import ChangeBatch, watch_tools

SAVES = 40
IDLE_SECONDS = 30.0
BURST = 20_000
A_FOLDER = 26


def main() -> None:
    """Print the figures, each from a new process and a new tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--one", choices=FIGURES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            FIGURES[options.one](Path(folder), options.files)
        return
    for name in FIGURES:
        command = [sys.executable, __file__, "--files", str(options.files), "--one", name]
        subprocess.run(command, check=True)


def saves(root: Path, files: int) -> None:
    """Print the time from a save to its batch."""
    fill(root, files)
    seen: dict[str, float] = {}
    written = ["."]
    news, stop = threading.Condition(), threading.Event()

    def follow() -> None:
        for batch in watch_tools(root, stop=stop):
            with news:
                paths = map(str, batch.paths) if batch.paths else (".", written[-1])
                seen.update(dict.fromkeys(paths, time.perf_counter()))
                news.notify()

    thread = threading.Thread(target=follow)
    thread.start()
    with news:
        news.wait_for(lambda: "." in seen)
    pick = random.Random(0)
    took = []
    for number in range(SAVES):
        time.sleep(pick.uniform(0.4, 0.6))
        path = f"category_{pick.randrange(files) // A_FOLDER}/tool_{number}_new.py"
        began = time.perf_counter()
        (root / path).write_text("x")
        written.append(path)
        with news:
            news.wait_for(lambda path=path: path in seen, timeout=30)
        took.append(1000 * (seen[path] - began))
    stop.set()
    thread.join()
    took.sort()
    show("a save → its batch", f"p50 {statistics.median(took):.0f} ms, most {took[-1]:.0f} ms")


def idle(root: Path, files: int) -> None:
    """Print the CPU and the memory of a watch while nothing happens."""
    fill(root, files)
    before = resident()
    with closing(watch_tools(root)) as batches:
        began = time.process_time()
        next(batches)
        start = time.process_time() - began
        after = resident()
        thread = threading.Thread(target=watch, args=(batches, root / "end.py"), daemon=True)
        thread.start()
        began, clock = time.process_time(), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        share = (time.process_time() - began) / (time.perf_counter() - clock)
        (root / "end.py").write_text("x")
        thread.join()
    show("the first batch", f"{1000 * start:.0f} ms of CPU")
    show("idle", f"{100 * share:.2f} % of a core")
    show("memory beyond the import", f"{after - before:.1f} MB")


def watch(batches: Iterator[ChangeBatch], end: Path) -> None:
    """Take batches until a file exists."""
    while next(batches) and not end.exists():
        pass


def burst(root: Path, files: int) -> None:
    """Print the time until a batch has named the last of many new files, or asked for a rescan."""
    fill(root, files)
    with closing(watch_tools(root)) as batches:
        next(batches)
        known = set(below(root))
        began = time.perf_counter()
        writer = threading.Thread(target=lambda: fill(root / "new", BURST))
        writer.start()
        while len(known) < files + BURST:
            batch = next(batches)
            for path in [Path()] if batch.rescan else batch.paths:
                known.update(below(root / path))
        seen = time.perf_counter() - began
        writer.join()
    show(f"{BURST:,} new files, all seen", f"{seen:.1f} s after the first")


def fill(root: Path, files: int) -> None:
    """Write a tree of tools, with as many per folder as real servers have."""
    for number in range(files):
        folder = root / f"category_{number // A_FOLDER}"
        if not number % A_FOLDER:
            folder.mkdir(parents=True)
        (folder / f"tool_{number}.py").write_text("x")


def below(path: Path) -> list[str]:
    """Return the files at or below a path."""
    if path.is_file():
        return [str(path)]
    return [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]  # noqa: PTH118


def resident() -> float:
    """Return the memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def show(what: str, value: str) -> None:
    """Print a figure."""
    print(f"{what:32} {value}", flush=True)


FIGURES = {"saves": saves, "idle": idle, "burst": burst}

if __name__ == "__main__":
    main()
