"""Measure searches while the accurate model takes over from the static one.

usage: uv run python benchmarks/takeover.py TOOLS SECONDS

A server's index of a generated tree of TOOLS tools is opened, and searched ten times a second until
the accurate model has embedded all tools or SECONDS have passed. Prints the number of searches by
the model that answered, their times, and how many tools were embedded.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pytools_hybrid import Settings, ToolSearch
from tool_tree import write_tree

QUERIES = [
    "which issues of the repository are open",
    "send a message to the team",
    "convert a document into another format",
    "remove an old record",
    "when is everybody free to meet",
]


async def main(tools: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "tools")
        write_tree(root, tools)
        settings = Settings(database=Path(folder, "index.db"), embedding_model="accurate")
        times: dict[str, list[float]] = {}
        started, used = time.perf_counter(), time.process_time()
        async with ToolSearch(root, settings, follow=True) as search:
            opened = time.perf_counter() - started
            model, number = "", 0
            while not model.startswith("accurate") and time.perf_counter() - started < seconds:
                before = time.perf_counter()
                # Use a new query each time, because answers are cached.
                query = f"{QUERIES[number % len(QUERIES)]} number {number}"
                model = (await search.search(query)).model
                times.setdefault(model, []).append(time.perf_counter() - before)
                number += 1
                await asyncio.sleep(0.1)
            taken, cpu = time.perf_counter() - started, time.process_time() - used
            for later in range(50):
                before = time.perf_counter()
                model = (await search.search(f"{QUERIES[later % 5]} again {later}")).model
                times.setdefault(f"{model}, afterwards", []).append(time.perf_counter() - before)
            coverage = await search.index.coverage()
    print(f"opened after {opened:.1f} s; {coverage.vectors} of {coverage.tools} tools have vectors")
    print(f"of the accurate model after {taken:.0f} s, {cpu:.0f} s of CPU")
    for name, values in times.items():
        p50, p95 = (1000 * statistics.quantiles([*values, *values], n=20)[at] for at in (9, 18))
        print(f"{name or 'words'}: {len(values)} searches, p50 {p50:.0f} ms, p95 {p95:.0f} ms")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
