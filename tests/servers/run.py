"""Import MCP servers of other projects with the installed command, and call their tools.

usage: python tests/servers/run.py COMMAND PYTHON

COMMAND is pytools-hybrid, PYTHON the interpreter that it runs with. The servers must be on PATH:
those of PyPI (`mcp-server-time`, `mcp-server-git`) are required, those of npm
(`mcp-server-filesystem`, `mcp-server-memory`, `mcp-server-everything`) are optional. None of them
needs the network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 300
OF_PYPI = ("time", "git")


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server, a query that finds one of its tools, and a call with its answer."""

    args: list[str] = field(default_factory=list)
    tools: int
    request: str
    finds: str
    program: str


SERVERS = {
    "time": Server(
        args=["--local-timezone", "UTC"],
        tools=2,
        request="what time is it in Vienna?",
        finds="get_current_time",
        program="""
from mcptools.time.get_current_time import Params, run
answer = run(Params(timezone="Europe/Vienna"))
assert answer.timezone == "Europe/Vienna", answer
assert answer.datetime.startswith("20"), answer
""",
    ),
    "git": Server(
        tools=10,
        request="show the history of commits of a repository",
        finds="git_log",
        program="""
from mcptools.git.git_log import Params, run
answer = run(Params(repo_path="repository", max_count=1))
assert "the first commit" in answer, answer
""",
    ),
    "filesystem": Server(
        args=["."],
        tools=10,
        request="list what is in a folder",
        finds="list_directory",
        program="""
from mcptools.filesystem.read_text_file import Params, run
answer = run(Params(path="hello.txt"))
assert answer.content == "hello", answer
""",
    ),
    "memory": Server(
        tools=5,
        request="look nodes up in the knowledge graph",
        finds="search_nodes",
        program="""
from mcptools.memory import create_entities, read_graph
entity = {"name": "tea", "entityType": "drink", "observations": ["green"]}
create_entities.run(create_entities.Params(entities=[entity]))
answer = read_graph.run(read_graph.Params())
assert [it.name for it in answer.entities] == ["tea"], answer
""",
    ),
    "everything": Server(
        tools=8,
        request="add two numbers",
        finds="get_sum",
        program="""
from mcptools.everything import get_sum, get_structured_content, get_tiny_image
assert "5.5" in get_sum.run(get_sum.Params(a=2, b=3.5))
params = get_structured_content.Params(location="Chicago")
assert get_structured_content.run(params).humidity > 0
assert "[image: image/png" in get_tiny_image.run(get_tiny_image.Params())
""",
    ),
}


def main() -> None:
    command, python = sys.argv[1:]
    there = {name: it for name, it in SERVERS.items() if shutil.which(f"mcp-server-{name}")}
    if missing := set(OF_PYPI) - there.keys():
        raise SystemExit(f"not installed: {', '.join(sorted(missing))}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(folder, there)
        wrong = [*_imported(command, folder, there)]
        for server, expected in there.items():
            wrong += _found(command, folder, server, expected)
            wrong += _called(python, folder, server, expected)
    if wrong:
        raise SystemExit("\n".join(["", *wrong]))
    print(f"{len(there)} servers were imported, found and called: {', '.join(there)}")


def _prepare(folder: Path, there: dict[str, Server]) -> None:
    os.environ.update(
        PYTOOLS_DIR=str(folder / "tools"),
        PYTOOLS_DB_PATH=str(folder / "index.db"),
        MEMORY_FILE_PATH=str(folder / "memory.jsonl"),
    )
    (folder / "hello.txt").write_text("hello", encoding="utf-8")
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "--quiet", "repository"], check=True)
    git[2] = str(folder / "repository")
    first = ["commit", "--quiet", "--allow-empty", "--message", "the first commit"]
    subprocess.run([*git, *first], check=True)
    servers = {
        name: {
            "command": f"mcp-server-{name}",
            "args": it.args,
            "env": {"MEMORY_FILE_PATH": "${MEMORY_FILE_PATH}", "PATH": "${PATH}"},
        }
        for name, it in there.items()
    }
    (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def _imported(command: str, folder: Path, there: dict[str, Server]) -> list[str]:
    wrong = []
    for status in ("imported", "unchanged"):
        started = time.perf_counter()
        done = subprocess.run(
            [command, "import", "servers.json", "--output", "json"],
            cwd=folder, timeout=SECONDS, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        print(f"{status} in {time.perf_counter() - started:.1f} s", flush=True)
        for report in json.loads(done.stdout)["servers"]:
            name = report["server"]
            if report["status"] != status or report["failed"] or report["notes"]:
                wrong.append(f"{name}: expected {status}, got {report}")
            if report["tools"] < there[name].tools:
                wrong.append(f"{name}: only {report['tools']} tools")
    return wrong


def _found(command: str, folder: Path, server: str, expected: Server) -> list[str]:
    done = subprocess.run(
        [command, "search", expected.request, "--output", "json"],
        cwd=folder, timeout=SECONDS, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    wanted = f"mcptools:{server}:{expected.finds}"
    if wanted in done.stdout:
        return []
    return [f"{server}: {expected.request!r} does not find {wanted}"]


def _called(python: str, folder: Path, server: str, expected: Server) -> list[str]:
    done = subprocess.run(
        [python, "-W", "error", "-c", expected.program],
        cwd=folder, timeout=SECONDS, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(folder / "tools")},
    )  # fmt: skip
    if done.returncode or done.stderr:
        return [f"{server}: {done.stderr or f'exit {done.returncode}'}"]
    return []


if __name__ == "__main__":
    main()
