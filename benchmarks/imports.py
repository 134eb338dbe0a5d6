"""Measure importing MCP servers, and calls through the generated modules and `call_tool`.

usage: uv run --extra import python benchmarks/imports.py SERVERS.json --tool SERVER.TOOL ARGUMENTS

    uv run --all-packages --extra import python benchmarks/imports.py servers.json \
        --tool time.get_current_time '{"timezone": "Europe/Vienna"}'

The servers are imported into an empty tree, then again into the same tree. Then the tool is called
with the MCP library's own client and with `toolimport.runtime`, alternately, each over a separate
connection that stays open. Finally, one client alternately calls it directly, through `call_tool`
of `pytools-hybrid serve --profile call`, and through a server of the MCP library that only passes
calls on, whose cost is the floor; on Linux, with the CPU seconds of both servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from toolimport import ImportOptions, import_servers
from toolimport.runtime import ToolRunner, close

_FLOOR = """
import asyncio, os, sys
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver import MCPServer

class Forward(MCPServer):
    async def list_tools(self):
        return (await self.there.list_tools()).tools

    async def call_tool(self, name, arguments, context=None):
        return await self.there.call_tool(name, arguments)

async def main():
    _, command, *args = sys.argv
    there = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    server = Forward("floor")
    async with Client(stdio_client(there)) as server.there:
        await server.run_stdio_async()

asyncio.run(main())
"""
_ROUNDS = 4
_CALLS = 100
_COMMAND = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent)) or "pytools-hybrid"


def _quiet(*_: object) -> None:
    pass


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("servers", type=Path)
    parser.add_argument("--tool", nargs=2, metavar=("SERVER.TOOL", "ARGUMENTS"), required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for run in ("first import", "unchanged"):
            started, before = time.perf_counter(), _cpu()
            reports = asyncio.run(
                import_servers(options.servers, Path(root), ImportOptions(), on_stage=_quiet)
            )
            seconds, cpu = time.perf_counter() - started, _cpu() - before
            print(f"{run}: {len(reports)} servers, {seconds:.1f} s, {cpu:.1f} s CPU, with theirs")
        server, _, tool = options.tool[0].partition(".")
        arguments: dict[str, Any] = json.loads(options.tool[1])
        asyncio.run(_beside_call_tool(options.servers, Path(root), server, tool, arguments))
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(_ROUNDS):
        bare += asyncio.run(_bare(options.servers, server, tool, arguments))
        ours += _ours(options.servers, server, tool, arguments)
    print(f"a call: {1000 * median(bare):.2f} ms bare, {1000 * median(ours):.2f} ms through ours")
    print(f"ratio: {median(ours) / median(bare):.2f}")


async def _beside_call_tool(
    servers: Path, root: Path, server: str, tool: str, arguments: dict[str, Any]
) -> None:
    """Call a tool directly and through our server, with the same client."""
    ours = StdioServerParameters(
        command=_COMMAND,
        args=["serve", "--profile", "call", "--root", str(root), "--database", f"{root}/index.db"],
        # Naming the servers makes them trusted.
        env={**os.environ, "PYTOOLS_SERVERS": str(servers), "PYTOOLS_EMBEDDING_MODEL": "static"},
    )
    there = _direct(servers, server)
    floor = StdioServerParameters(
        command=sys.executable, args=["-c", _FLOOR, there.command, *there.args], env=there.env
    )
    asked = {"id": f"mcptools:{server}:{tool}", "arguments": arguments}
    calls = {"directly": (tool, arguments), "by call_tool": ("call_tool", asked)}
    calls["by the library's server"] = calls["directly"]
    times: dict[str, list[float]] = {way: [] for way in calls}
    cpu: dict[str, list[float]] = {way: [] for way in calls}
    async with AsyncExitStack() as stack:
        clients: dict[str, tuple[Client, int]] = {}
        for way, parameters in zip(calls, (there, ours, floor), strict=True):
            before = _children()
            client = await stack.enter_async_context(Client(stdio_client(parameters)))
            (process,) = _children() - before
            clients[way] = client, process
        for turn in range(_ROUNDS + 1):
            for way, (client, process) in clients.items():
                used = _cpu_of(process)
                taken = await _timed(client, *calls[way])
                if turn:  # the first turn starts the server
                    times[way] += taken
                    cpu[way].append((_cpu_of(process) - used) / _CALLS)
    for way in calls:
        print(f"{1000 * median(times[way]):.2f} ms {way}", end="; CPU of its server: ")
        print(f"{1000 * median(cpu[way]):.2f} ms a call, least {1000 * min(cpu[way]):.2f}")


async def _timed(client: Client, tool: str, arguments: dict[str, Any]) -> list[float]:
    times: list[float] = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        result = await client.call_tool(tool, arguments)
        times.append(time.perf_counter() - started)
        if result.is_error:
            raise SystemExit(str(result.content))
    return times


def _children() -> set[int]:
    listed = Path("/proc/self/task").glob("*/children")
    return {int(it) for file in listed for it in file.read_text().split()}


def _cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _bare(servers: Path, server: str, tool: str, arguments: dict[str, Any]) -> list[float]:
    async with Client(stdio_client(_direct(servers, server))) as client:
        return await _timed(client, tool, arguments)


def _direct(servers: Path, server: str) -> StdioServerParameters:
    entry = json.loads(servers.read_text("utf-8"))["mcpServers"][server]
    if "command" not in entry:
        raise SystemExit("the tool's server must be one that is started, not one at a URL")
    return StdioServerParameters(
        command=entry["command"], args=entry.get("args", []), env=entry.get("env")
    )


def _ours(servers: Path, server: str, tool: str, arguments: dict[str, Any]) -> list[float]:
    runner = ToolRunner(server, str(servers))
    runner.run_sync(tool, arguments)
    times: list[float] = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        runner.run_sync(tool, arguments)
        times.append(time.perf_counter() - started)
    close()
    return times


def _cpu() -> float:
    """Return the CPU seconds of this process and its ended children."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_children.ru_utime + of_children.ru_stime


if __name__ == "__main__":
    main()
