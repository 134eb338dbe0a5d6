"""Measure the first call of an imported tool in a process, with toolimport alone and the app.

usage: uv run --all-packages --extra import python benchmarks/first_call.py [--runs N]

A small server with a hundred tools is imported. Our wheels are installed, with their declared
dependencies in the versions of uv.lock, into an environment for each package. There, a new process
calls one tool; for comparison, another does so with the `mcp` library's own client. CPU is that of
the calling process, without the server. The first call compiles the modules that it imports.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from start import environment_of, install, size
from toolimport import ImportOptions, import_servers

ROOT = Path(__file__).parents[1]
SERVER = ROOT / "packages" / "toolimport" / "tests" / "small_server.py"
BARE = """\
import asyncio, json
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    entry = json.load(open("servers.json"))["mcpServers"]["shop"]
    async with Client(stdio_client(StdioServerParameters(**entry))) as client:
        await client.call_tool("echo", {"text": "x"})

asyncio.run(main())
"""
MODULE = """\
import sys
sys.path.insert(0, "tools")
from mcptools.shop.echo import Params, run
run(Params(text="x"))
"""
CPU = "\nimport time\nprint(time.process_time())"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _import(folder)
        print(f"{'seconds, best of ' + str(runs):58} {'first':>12} {'later':>12}")
        print(f"{'':58} {'CPU':>5} {'wall':>6} {'CPU':>5} {'wall':>6}")
        for package in ("toolimport", "pytools-hybrid"):
            own = folder / package
            python = install(own, package) / "python"
            count, taken = size(python)
            print(f"{package}: {count} distributions, {taken / 1e6:.0f} MB (without byte code)")
            for title, program in (("pass", "pass"), ("the bare client", BARE), ("run()", MODULE)):
                first, later = [], []
                for _ in range(runs):
                    for written in own.rglob("__pycache__"):
                        shutil.rmtree(written)
                    first.append(_timed(python, program, folder))
                    later.append(_timed(python, program, folder))
                best = [f"{cpu:5.2f} {wall:6.2f}" for cpu, wall in (min(first), min(later))]
                print(f"  {title:56} {' '.join(best)}")


def _import(folder: Path) -> None:
    """Import a server whose other tools have output schemas, as many servers' tools have."""
    person = {
        "type": "object",
        "properties": {it: {"type": "string", "description": "A text."} for it in "abcdef"},
        "required": ["a"],
    }
    schema = {"type": "object", "properties": dict.fromkeys("uvwxyz", person)}
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    echo = {"name": "echo", "inputSchema": text}
    others = [
        {"name": f"tool{number}", "inputSchema": schema, "outputSchema": schema}
        for number in range(99)
    ]
    (folder / "plan.json").write_text(json.dumps({"tools": [echo, *others]}))
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), str(folder / "plan.json")]}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))
    options = ImportOptions(include=("echo",))
    job = import_servers(folder / "servers.json", folder / "tools", options)
    (report,) = asyncio.run(job)
    if report.added != ("echo",):
        raise SystemExit(str(report))


def _timed(python: Path, program: str, folder: Path) -> tuple[float, float]:
    """Run a process, and return its CPU and wall time in seconds."""
    started = time.perf_counter()
    done = subprocess.run(
        [python, "-c", program + CPU],
        cwd=folder,
        env=environment_of(folder / "cache"),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout), time.perf_counter() - started


if __name__ == "__main__":
    main()
