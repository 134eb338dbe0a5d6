"""Measure the memory and CPU time of `index` and `serve`."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from index_figures import Figure

__all__ = ["index_command", "server_at_rest"]

_COMMAND = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent)) or "pytools-hybrid"
_POLL_SECONDS = 0.02
_REST_SECONDS = 1.5
_PATIENCE_SECONDS = 600.0
_INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


def index_command(root: Path, database: Path) -> list[Figure]:
    """Index and embed a tree with `pytools-hybrid index`, in a separate process."""
    before = _children_cpu()
    peak = 0.0
    with subprocess.Popen(
        [_COMMAND, "index", "--root", str(root), "--database", str(database)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(),
        text=True,
    ) as process:
        while process.poll() is None:
            # VmHWM only rises, so the last value read is nearly the final one.
            peak = max(peak, _kilobytes(Path(f"/proc/{process.pid}/status"), "VmHWM"))
            time.sleep(_POLL_SECONDS)
        said = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise SystemExit(f"pytools-hybrid index failed: {said}")
    cpu = _children_cpu() - before
    return [
        Figure(what="`pytools-hybrid index`, CPU", value=cpu, unit="s", aim=30, grows=True),
        Figure(what="`pytools-hybrid index`, peak", value=peak / 1000, unit="MB"),
    ]


def server_at_rest(root: Path, database: Path, queries: Sequence[str]) -> list[Figure]:
    """Start `pytools-hybrid serve`, search, wait until it is idle, and read its memory."""
    with subprocess.Popen(
        [_COMMAND, "serve", "--root", str(root), "--database", str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        _send(server.stdin, id=1, method="initialize", params=_INITIALIZE)
        _answer(server.stdout, 1)
        _send(server.stdin, method="notifications/initialized")
        for number, query in enumerate(queries, 2):
            call = {"name": "search_tools", "arguments": {"query": query}}
            _send(server.stdin, id=number, method="tools/call", params=call)
            if not _answer(server.stdout, number)["structuredContent"]["result"]:
                raise SystemExit("the server found nothing")
        _until_at_rest(server.pid)
        rollup = Path(f"/proc/{server.pid}/smaps_rollup")
        sizes = {name: _kilobytes(rollup, name) / 1000 for name in ("Rss", "Pss", "Anonymous")}
        server.stdin.close()
        server.wait()
    return [
        Figure(what="idle server, resident", value=sizes["Rss"], unit="MB", aim=150),
        Figure(what="idle server, proportional", value=sizes["Pss"], unit="MB"),
        Figure(what="idle server, not of a file", value=sizes["Anonymous"], unit="MB"),
    ]


def _send(stream: IO[str], **message: Any) -> None:  # noqa: ANN401 - JSON
    stream.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    stream.flush()


def _answer(stream: IO[str], number: int) -> dict[str, Any]:
    for line in stream:
        message = json.loads(line)
        if message.get("id") == number:
            return dict(message["result"])
    raise SystemExit("the server ended")


def _until_at_rest(pid: int) -> None:
    """Wait until the process has used no CPU time for a while."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    before, since = -1, time.monotonic()
    while time.monotonic() - since < _REST_SECONDS and time.monotonic() < deadline:
        # utime and stime, fields 14 and 15 of stat(5); the name before them may contain spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        if ticks != before:
            before, since = ticks, time.monotonic()
        time.sleep(_POLL_SECONDS)


def _kilobytes(file: Path, name: str) -> float:
    for line in file.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1])
    return 0.0  # a zombie has no memory


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
