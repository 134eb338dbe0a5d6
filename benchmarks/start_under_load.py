"""Measure how long `initialize` takes on a busy machine, compared with the SDK's bare server.

usage: uv run python benchmarks/start_under_load.py [--root DIR] [--busy N] [--runs N]

Our server over stdio, with a new and with an existing index, and a bare server of the SDK with one
tool are started alternately while N other processes keep the processors busy. Each figure is the
wall time in seconds from the start of the process to its answer; the ratio is that of the medians.
Exits with 1 if ours takes more than twice as long as the bare one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from startup import COMMAND, INITIALIZE

_ALLOWED = 2.0
_BARE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def add(a: int, b: int) -> int:
    "Add."
    return a + b
server.run("stdio")
"""


def seconds_to_answer(command: list[str], environment: dict[str, str]) -> float:
    """Return the seconds from a server's start to its answer to `initialize`."""
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(INITIALIZE) + "\n")
        server.stdin.flush()
        assert "result" in json.loads(server.stdout.readline())
        took = time.perf_counter() - began
        server.kill()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("examples/tools"))
    parser.add_argument("--busy", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    serve = [COMMAND, "serve", "--root", str(arguments.root), "--database"]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as load:
        kept = str(Path(folder, "kept.db"))
        subprocess.run(
            [COMMAND, "index", "--root", str(arguments.root), "--database", kept],
            env=environment,
            capture_output=True,
            check=True,
        )
        for _ in range(arguments.busy):
            busy = load.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            load.callback(busy.kill)
        took: dict[str, list[float]] = {"bare": [], "kept index": [], "new index": []}
        for number in range(arguments.runs):
            new = str(Path(folder, f"new{number}.db"))
            took["bare"].append(seconds_to_answer([sys.executable, "-c", _BARE], environment))
            took["kept index"].append(seconds_to_answer([*serve, kept], environment))
            took["new index"].append(seconds_to_answer([*serve, new], environment))
    bare = median(took["bare"])
    for name, each in took.items():
        shown = " ".join(f"{seconds:.2f}" for seconds in sorted(each))
        print(f"{name:12} {median(each):6.2f} s  {median(each) / bare:5.2f}  ({shown})")
    if max(median(each) for each in took.values()) > _ALLOWED * bare:
        sys.exit(1)


if __name__ == "__main__":
    main()
