"""Importing MCP servers, and what a call through the modules costs beside the bare client.

usage: uv run --extra import python benchmarks/imports.py SERVERS.json --tool SERVER.TOOL ARGUMENTS

    uv run --all-packages --extra import python benchmarks/imports.py servers.json \
        --tool time.get_current_time '{"timezone": "Europe/Vienna"}'

The servers are imported into an empty tree, and once more into the same. Then the tool is called
through the MCP library's own client and through `toolimport.runtime`, turn by turn, each over a
connection of its own that stays open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from toolimport import ImportOptions, import_servers
from toolimport.connect import StdioParameters, read_servers
from toolimport.runtime import ToolRunner, close

_ROUNDS = 4
_CALLS = 100


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("servers", type=Path)
    parser.add_argument("--tool", nargs=2, metavar=("SERVER.TOOL", "ARGUMENTS"), required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for run in ("first import", "unchanged"):
            started, before = time.perf_counter(), _cpu()
            reports = asyncio.run(
                import_servers(
                    options.servers, Path(root), ImportOptions(), on_stage=lambda *_: None
                )
            )
            seconds, cpu = time.perf_counter() - started, _cpu() - before
            print(f"{run}: {len(reports)} servers, {seconds:.1f} s, {cpu:.1f} s CPU, with theirs")
    server, _, tool = options.tool[0].partition(".")
    arguments: dict[str, Any] = json.loads(options.tool[1])
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(_ROUNDS):
        bare += asyncio.run(_bare(options.servers, server, tool, arguments))
        ours += _ours(options.servers, server, tool, arguments)
    print(f"a call: {1000 * median(bare):.2f} ms bare, {1000 * median(ours):.2f} ms through ours")
    print(f"ratio: {median(ours) / median(bare):.2f}")


async def _bare(servers: Path, server: str, tool: str, arguments: dict[str, Any]) -> list[float]:
    (entry,) = (it for it in read_servers(servers) if it.name == server)
    times = []
    parameters = entry.parameters()
    if not isinstance(parameters, StdioParameters):
        raise SystemExit("the tool must be of a server that is started, not of one at an address")
    started_as = StdioServerParameters(
        command=parameters.command, args=list(parameters.args), env=dict(parameters.env)
    )
    async with Client(stdio_client(started_as)) as client:
        for _ in range(_CALLS):
            started = time.perf_counter()
            await client.call_tool(tool, arguments)
            times.append(time.perf_counter() - started)
    return times


def _ours(servers: Path, server: str, tool: str, arguments: dict[str, Any]) -> list[float]:
    runner = ToolRunner(server, str(servers))
    runner.run_sync(tool, arguments)
    times = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        runner.run_sync(tool, arguments)
        times.append(time.perf_counter() - started)
    close()
    return times


def _cpu() -> float:
    """Return the CPU seconds of this process and of those that have ended."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_children.ru_utime + of_children.ru_stime


if __name__ == "__main__":
    main()
