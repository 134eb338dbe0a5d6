"""Measure the size and time of the console's pages, on a generated tree.

usage: uv run python benchmarks/console.py [TOOLS]

In one process, without a network: the bytes of each page and of its style sheet, and the CPU time
of 60 whole requests of each kind, with the same search over the JSON API for comparison. The usage
record has 10,000 searches of the last 30 days, and 3,000 outcomes.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import httpx2
from pytools_hybrid import Follower, Settings, ToolSearch
from pytools_hybrid.serve.http import create_app
from pytools_hybrid.serve.mcp import create_server
from tool_tree import queries, write_tree
from toolembed import StaticEmbedder
from toolindex import OutcomeRecord, SearchRecord

REQUESTS = 60
SEARCHES = 10_000
OUTCOMES = 3_000


async def measure(folder: Path, tools: int) -> None:
    write_tree(folder / "tools", tools)
    settings = Settings.from_flags({"database": folder / "index.db", "watch": False})
    root, embedder = folder / "tools", StaticEmbedder()
    async with ToolSearch(root, settings, embedder=embedder, refresh=False) as search:
        await search.index.update()
        follower = Follower(search.index)
        following = asyncio.create_task(follower.run())
        server = create_server(search, follower, settings=settings, root=root)
        transport = httpx2.ASGITransport(create_app(search, follower, server, settings))
        ids = [str(entry.id) for entry in await search.entries()]
        record_use(search, ids)
        asked = [quote(query) for query in queries(REQUESTS, tools)]
        shown = ids[:: len(ids) // REQUESTS][:REQUESTS]
        kinds = {
            "the JSON API, 5 results": [f"/search?q={query}" for query in asked],
            "search, 5 results": [f"/?q={query}" for query in asked],
            "search, 50 results": [f"/?q={query}&limit=50" for query in asked],
            "search, no request yet": ["/"] * REQUESTS,
            "catalogue": ["/console/tools"] * REQUESTS,
            "usage, 7 days, the first time": ["/console/usage"],
            "usage, 30 days, the first time": ["/console/usage?days=30"],
            "usage, 30 days, again": ["/console/usage?days=30"] * REQUESTS,
            "health": ["/console/health"] * REQUESTS,
            "tool": [f"/console/tools/{id_}" for id_ in shown],
            "tool, and its place": [
                f"/console/tools/{id_}?q={query}" for id_, query in zip(shown, asked, strict=True)
            ],
        }
        address = "http://127.0.0.1:8000"
        async with httpx2.AsyncClient(transport=transport, base_url=address) as client:
            style = await client.get("/console/static/style.css")
            print(f"{tools} tools; style {len(style.content) / 1000:.1f} kB")
            print("| page | p50 CPU ms | p95 CPU ms | largest kB |\n|---|--:|--:|--:|")
            for kind, paths in kinds.items():
                if len(paths) > 1:
                    await client.get(paths[0])
                times: list[float] = []
                sizes: list[float] = []
                for path in paths:
                    started = time.process_time()
                    answer = await client.get(path)
                    times.append(1000 * (time.process_time() - started))
                    sizes.append(len(answer.content) / 1000)
                    assert answer.status_code == httpx2.codes.OK, answer.text
                cuts = statistics.quantiles([*times, *times], n=20)
                print(f"| {kind} | {cuts[9]:.0f} | {cuts[18]:.0f} | {max(sizes):.1f} |")
        following.cancel()
        await asyncio.wait({following})


def record_use(search: ToolSearch, ids: list[str]) -> None:
    chance = random.Random(7)
    now = time.time()
    moments = [now - chance.random() * 30 * 86_400 for _ in range(SEARCHES)]
    usage = search.index.store.usage
    usage.record_searches(
        SearchRecord(
            id=str(number),
            at=at,
            query=f"request number {int(chance.paretovariate(1))}",
            mode="hybrid",
            results=tuple(chance.sample(ids, chance.choice((0, 5, 5, 5)))),
            latency_ms=chance.expovariate(0.1),
        )
        for number, at in enumerate(moments)
    )
    usage.record_outcomes(
        OutcomeRecord(
            at=moments[number] + 1,
            tool_id=chance.choice(ids),
            success=chance.random() < 0.9,
            latency_ms=chance.expovariate(0.01),
            search_id=str(number),
        )
        for number in range(OUTCOMES)
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
