"""Measure what the server adds to a search, and how fast it starts, by size of tree.

usage: uv run python benchmarks/server.py [--sizes 100,1000,10000] [--trees DIR] [--json FILE]

For each size: the CPU time of a process until it has answered `initialize`, compared with that of
`import mcp.server.mcpserver`; wall and CPU time of a search for five tools over stdio, over
streamable HTTP and with the JSON API, compared with the same search in process
(`ToolSearch.search`); and many searches at once. All alternate, to run under the same load. `fresh`
queries are new to the process, `repeated` ones are not. With --trees the trees are kept there and
reused. Linux only: CPU times of servers are read from /proc, in hundredths of a second, so they are
means over all calls.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Barrier

from index_figures import Figure, overview, table
from pytools_hybrid import Settings, ToolSearch
from server_clients import (
    RESULTS,
    Api,
    Mcp,
    Stdio,
    cpu_seconds,
    environment,
    over_http,
    over_stdio,
)
from startup import initialize, run
from tool_tree import queries, write_tree

_STARTS = 7
_ROUNDS = 4
_A_ROUND = 50
_AT_ONCE = {"stdio": 64, "HTTP": 200}
_IN_PROCESS = "in process"
_START_AIM = 1.3
_BEYOND_AIM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to search, and its measurements.

    Attributes:
        ask: Searches once.
        cpu: Returns the CPU seconds of its process.
        wall: The time of each search.
        spent: The CPU seconds of each round.
    """

    ask: Callable[[str], Awaitable[object]]
    cpu: Callable[[], float]
    wall: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)


def starts(root: Path, index: Path, folder: Path) -> list[Figure]:
    """Measure the start of a server, with and without an index."""
    variables = environment()
    shutil.copy(index, kept := folder / "kept.db")
    floors, warm, cold = [], [], []
    for number in range(_STARTS):
        imported = (sys.executable, "-c", "import mcp.server.mcpserver")
        floors.append(run(*imported, environment=variables))
        warm.append(initialize(root, kept, variables))
        cold.append(initialize(root, folder / f"new-{number}.db", variables))
    return [
        Figure(
            what=f"start to `initialize` answered, {name}, CPU",
            value=min(times),
            unit="s",
            floor="import mcp",
            least=min(floors),
            aim=_START_AIM,
        )
        for name, times in (("no index", cold), ("restart", warm))
    ]


async def searches(root: Path, index: Path, folder: Path, asked: Sequence[str]) -> list[Figure]:
    """Measure searches one after the other, then many at once."""
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        databases = {}
        for name in (_IN_PROCESS, "stdio", "mcp", "api"):
            # Use a separate copy, because the index caches the vectors of queries.
            databases[name] = Path(shutil.copy(index, folder / f"{name}.db"))
        settings = Settings.from_flags({"database": databases[_IN_PROCESS]})
        product = await stack.enter_async_context(ToolSearch(root, settings, refresh=False))
        stdio = stack.enter_context(over_stdio(root, databases["stdio"]))
        pid, url = stack.enter_context(over_http(root, databases["mcp"], folder / "mcp.log"))
        mcp = stack.enter_context(closing(Mcp(url)))
        api_pid, api_url = stack.enter_context(
            over_http(root, databases["api"], folder / "api.log")
        )
        api = stack.enter_context(closing(Api(api_url)))
        await product.search("wait until there is something to find")

        async def in_process(query: str) -> None:
            await product.search(query, limit=RESULTS)

        def ways() -> dict[str, Way]:
            return {
                _IN_PROCESS: Way(ask=in_process, cpu=time.process_time),
                "stdio": Way(ask=_now(stdio.search), cpu=lambda: cpu_seconds(stdio.pid)),
                "/mcp": Way(ask=_now(mcp.search), cpu=lambda: cpu_seconds(pid)),
                "/api": Way(ask=_now(api.search), cpu=lambda: cpu_seconds(api_pid)),
            }

        one_by_one = _ROUNDS * _A_ROUND
        rounds = [asked[at : at + _A_ROUND] for at in range(0, one_by_one, _A_ROUND)]
        figures += _compared("fresh", await _taken(ways(), rounds))
        figures += _compared("repeated", await _taken(ways(), [rounds[-1]] * _ROUNDS))
        several = asked[one_by_one:]
        figures += _at_once_over_stdio(stdio, several)
        figures += _at_once_over_http("/mcp", pid, url, several, Mcp)
        figures += _at_once_over_http("/api", api_pid, api_url, several, Api)
    return figures


def _now(search: Callable[[str], object]) -> Callable[[str], Awaitable[None]]:
    async def ask(query: str) -> None:
        search(query)

    return ask


async def _taken(ways: dict[str, Way], rounds: Sequence[Sequence[str]]) -> dict[str, Way]:
    for queries_of_it in rounds:
        for way in ways.values():
            gc.collect()
            before = way.cpu()
            for query in queries_of_it:
                started = time.perf_counter()
                await way.ask(query)
                way.wall.append(time.perf_counter() - started)
            way.spent.append(way.cpu() - before)
    return ways


def _compared(kind: str, ways: dict[str, Way]) -> list[Figure]:
    floor = ways[_IN_PROCESS]
    least = _milliseconds(floor)
    figures = []
    for name, way in ways.items():
        is_floor = way is floor
        for summary, value in _milliseconds(way).items():
            shown = Figure(what=f"search, {kind}, {name}, {summary}", value=value, unit="ms")
            if not is_floor:
                shown = replace(shown, floor=_IN_PROCESS, least=least[summary])
            figures.append(shown)
        if not is_floor:
            beyond = _milliseconds(way)["CPU"] - least["CPU"]
            what = f"search, {kind}, {name}, CPU beyond the ranking"
            figures.append(Figure(what=what, value=beyond, unit="ms", aim=_BEYOND_AIM))
    return figures


def _milliseconds(way: Way) -> dict[str, float]:
    return _percentiles(way.wall) | {"CPU": 1000 * sum(way.spent) / len(way.wall)}


def _percentiles(wall: Sequence[float]) -> dict[str, float]:
    ordered = sorted(wall)
    return {
        f"p{percent}": 1000 * ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]
        for percent in (50, 95)
    }


def _at_once_over_stdio(session: Stdio, asked: Sequence[str]) -> list[Figure]:
    count = _AT_ONCE["stdio"]
    before = cpu_seconds(session.pid)
    wall = session.search_at_once(asked[:count])
    return _together(f"{count} at once, stdio", wall, cpu_seconds(session.pid) - before)


def _at_once_over_http(
    name: str, pid: int, url: str, asked: Sequence[str], client: type[Api] | type[Mcp]
) -> list[Figure]:
    count = _AT_ONCE["HTTP"]
    clients = [client(url) for _ in range(count)]
    together = Barrier(count)

    def search(position: int) -> tuple[float, float]:
        together.wait()
        started = time.perf_counter()
        clients[position].search(asked[position])
        return started, time.perf_counter()

    before = cpu_seconds(pid)
    with ThreadPoolExecutor(count) as pool:
        times = list(pool.map(search, range(count)))
    spent = cpu_seconds(pid) - before
    for each in clients:
        each.close()
    first = min(started for started, _ in times)
    return _together(f"{count} at once, {name}", [ended - first for _, ended in times], spent)


def _together(what: str, wall: Sequence[float], spent: float) -> list[Figure]:
    shown = _percentiles(wall) | {"CPU": 1000 * spent / len(wall)}
    return [Figure(what=f"{what}, {name}", value=it, unit="ms") for name, it in shown.items()]


async def _index(root: Path, database: Path) -> None:
    async with ToolSearch(
        root, Settings.from_flags({"database": database}), refresh=False
    ) as search:
        await search.index.update()


def measure(root: Path, tools: int, folder: Path) -> list[Figure]:
    if not root.exists():
        write_tree(root, tools)
    index = folder / "index.db"
    asyncio.run(_index(root, index))
    count = _ROUNDS * _A_ROUND + max(_AT_ONCE.values())
    asked = list(dict.fromkeys(queries(2 * count, tools)))[:count]
    return starts(root, index, folder) + asyncio.run(searches(root, index, folder, asked))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--sizes", default="100,1000,10000", help="numbers of tools, separated by commas"
    )
    parser.add_argument("--trees", type=Path, help="keep the generated trees in this folder")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    results: dict[int, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="server-bench-") as temporary:
        for tools in map(int, options.sizes.split(",")):
            folder = Path(temporary, str(tools))
            folder.mkdir()
            root = (options.trees or folder) / f"tree-{tools}"
            results[tools] = measure(root, tools, folder)
            print(table(f"{tools:,} tools, Python {sys.version.split()[0]}", results[tools]))
            print(flush=True)
    if len(results) > 1:
        print(overview(results))
    if options.json:
        shown = {str(size): [asdict(f) for f in figures] for size, figures in results.items()}
        options.json.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
