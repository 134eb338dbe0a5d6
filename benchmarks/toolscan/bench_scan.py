"""Measure a scan, as ratios to floors measured in the same run.

    python benchmarks/toolscan/bench_scan.py [--modules 10000] [--tree DIR] [--repeat 3]

Times are CPU seconds of this process, best of the repeats. The floors:
    read + hash     opening, reading and hashing (SHA-256) every file
    ast.parse       parsing the bytes of every file, already in memory
    scandir + stat  listing every folder and calling stat on every file
Memory is what `scan` allocates: its peak, and the size of its records.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import os
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import toolscan

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = '''from __future__ import annotations

from enum import Enum
from typing import Any, Dict, List, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, conint


class Mode{number}(Enum):
    fast = "fast"
    slow = "slow"
    careful = "careful"


class Item{number}(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    id: str
    """
    Identifier of the item to {verb}.
    """
    labels: Optional[List[str]] = None
    size: Optional[conint(ge=1, le=100)] = Field(10, title="Size")


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    {noun}_id: str
    """
    The {noun} to {verb}, as given by the service when it was made.
    """
    mode: Optional[Mode{number}] = "fast"
    """
    How to do it: fast, slow or careful.
    """
    items: Optional[List[Item{number}]] = None
    """
    The items of the {noun} that are concerned. All of them where this is not given.
    """
    options: Optional[Dict[str, Any]] = None
    limit: Optional[Union[int, str]] = Field(20, description="At most so many results.")
    dry_run: Optional[bool] = False
    """
    Only report what would be done.
    """


from . import CLIENT

def run(params: Params) -> str:
    """{title} a {noun} of service {number}.

    Use this where a {noun} has to be found by its id and treated at once. The result is a text
    that names the {noun} and says what was done with each of its items.
    """
    return CLIENT.run_sync(tool_name="{verb}_{noun}", tool_args=params.model_dump())
'''
VERBS = "create update delete list search export import archive restore merge".split()  # noqa: SIM905
NOUNS = "ticket invoice document calendar contact branch payment message".split()  # noqa: SIM905


def generate(root: Path, modules: int) -> None:
    """Write a tree of modules shaped like those generated from MCP servers, 50 to a folder."""
    for number in range(modules):
        folder = root / "mcptools" / f"server_{number // 50}"
        if number % 50 == 0:
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("CLIENT = None\n", encoding="utf-8")
        verb, noun = VERBS[number % len(VERBS)], NOUNS[number // 10 % len(NOUNS)]
        text = MODULE.format(number=number, verb=verb, noun=noun, title=verb.title())
        (folder / f"{verb}_{noun}_{number}.py").write_text(text, encoding="utf-8")
    # Wait until an edit is sure to change the files' times, because newer records have no stamps.
    time.sleep(2.1)


def best(repeat: int, action: Callable[[], object]) -> float:
    """Return the least CPU time of several runs."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        began = time.process_time()
        result = action()
        times.append(time.process_time() - began)
        del result
    return min(times)


def files(root: Path) -> list[str]:
    """List the modules of the tree."""
    return [str(path) for path in sorted(root.rglob("*.py"))]


def read_and_hash(paths: list[str]) -> None:
    """Read and hash every file."""
    for path in paths:
        with open(path, "rb") as file:  # noqa: PTH123  (the floor, not the prettiest way)
            hashlib.sha256(file.read()).digest()


def list_and_stat(root: str) -> int:
    """List every folder of the tree, and call stat on every file."""
    folders, count = [root], 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                else:
                    entry.stat()
                    count += 1
    return count


def measure(root: Path, repeat: int) -> None:
    """Measure everything and print the table."""
    paths = files(root)
    sources = [Path(path).read_bytes() for path in paths]
    report = toolscan.scan(root)
    known = {record.path: record.stamp for record in report.records if record.stamp}
    unchanged = toolscan.scan(root, known=known).unchanged
    print(
        f"{len(report.records)} tools, {len(report.issues)} issues, {len(paths)} files, "
        f"{sum(map(len, sources)) / 1e6:.1f} MB; {len(unchanged)} found unchanged; "
        f"Python {sys.version.split()[0]}\n"
    )
    stored = list(report.records)
    del report
    floors = {
        "read + hash": best(repeat, lambda: read_and_hash(paths)),
        "ast.parse": best(repeat, lambda: [ast.parse(data) and None for data in sources]),
        "scandir + stat": best(repeat, lambda: list_and_stat(str(root))),
    }
    del stored
    cold = best(repeat, lambda: toolscan.scan(root))
    again = best(repeat, lambda: toolscan.scan(root, known=known))
    rows = [
        ("cold scan", cold, "read + hash", None),
        ("cold scan", cold, "ast.parse", 4.0),
        ("unchanged scan", again, "scandir + stat", 3.0),
    ]
    print(f"{'':16}{'CPU s':>8}   {'floor':16}{'CPU s':>8}{'ratio':>8}{'aim':>8}")
    for name, seconds, floor, aim in rows:
        ratio = seconds / floors[floor]
        shown = f"<= {aim:g}" if aim else ""
        print(f"{name:16}{seconds:8.3f}   {floor:16}{floors[floor]:8.3f}{ratio:8.2f}{shown:>8}")
    memory(root, len(paths))


def memory(root: Path, count: int) -> None:
    """Print what a cold scan allocates."""
    gc.collect()
    tracemalloc.start()
    report = toolscan.scan(root)
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(
        f"\nmemory: peak {peak / 1e6:.1f} MB, of which {kept / 1e6:.1f} MB stay in the report "
        f"({kept / max(1, count) / 1e3:.1f} kB a file; {len(report.records)} records)"
    )


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--modules", type=int, default=10_000, help="number of modules to generate")
    parser.add_argument("--tree", type=Path, help="measure this tree instead")
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of each measurement; the best one counts"
    )
    options = parser.parse_args()
    if options.tree:
        measure(options.tree, options.repeat)
        return
    with tempfile.TemporaryDirectory(prefix="toolscan-bench-") as folder:
        generate(Path(folder), options.modules)
        measure(Path(folder), options.repeat)


if __name__ == "__main__":
    main()
