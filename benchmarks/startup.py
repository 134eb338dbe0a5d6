"""Measure the CPU time of `--help`, a warm search, and the server's first answer.

usage: uv run python benchmarks/startup.py [--root DIR] [--runs N]

Each figure is the smallest of N runs, in seconds of CPU (user and system, with children). The floor
of the server's start is `import mcp`, the SDK alone in an interpreter that does nothing else. Run
it twice and use the second result, because the first run writes byte code.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

COMMAND = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent)) or "pytools-hybrid"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


def children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(*command: str, environment: dict[str, str]) -> float:
    before = children_cpu()
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return children_cpu() - before


def initialize(root: Path, database: Path, environment: dict[str, str]) -> float:
    """Return the CPU time of a server process when its answer to `initialize` arrives."""
    with subprocess.Popen(
        [COMMAND, "serve", "--root", str(root), "--database", str(database)],
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
        json.loads(server.stdout.readline())
        # utime and stime, fields 14 and 15 of stat(5); the name before them may contain spaces.
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        server.stdin.close()
        server.wait()
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("examples/tools"))
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "index.db")
        search = (COMMAND, "search", "open an issue", "--root", str(arguments.root))
        measures: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: run(sys.executable, "-c", "pass", environment=environment),
            "pytools-hybrid --help": lambda: run(COMMAND, "--help", environment=environment),
            "pytools-hybrid search, warm": lambda: run(
                *search, "--database", str(database), environment=environment
            ),
            "import mcp.server.mcpserver": lambda: run(
                sys.executable, "-c", "import mcp.server.mcpserver", environment=environment
            ),
            "serve: initialize answered, warm index": lambda: initialize(
                arguments.root, database, environment
            ),
            "serve: initialize answered, no index": lambda: initialize(
                arguments.root, Path(tempfile.mkdtemp(dir=folder), "new.db"), environment
            ),
        }
        for measure in measures.values():
            measure()
        print(f"{'CPU seconds, best of ' + str(arguments.runs):42}")
        for name, measure in measures.items():
            print(f"{name:42} {min(measure() for _ in range(arguments.runs)):6.2f}")


if __name__ == "__main__":
    main()
