# pyright: basic
"""Print the first five minutes with three real MCP servers, as Markdown.

From the root of the repository, with git, uv, npm and access to the network:

    uv run python docs/transcripts/five_minutes.py > docs/transcripts/five-minutes.md

It clones the repository's last commit, and does in the clone what a newcomer does. Everything is in
a temporary home folder. A folder given as an argument is copied there first; it may contain the
settings that uv and npm need to reach a registry.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
INTRODUCTION = """\
# Five minutes

From a fresh clone to tools of three MCP servers that an agent finds and that can be called.
[five_minutes.py](five_minutes.py) generated this page on a shared machine with two cores. The
seconds are the times of the commands, including downloads by uv and npm.
"""
SERVERS = """\
{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "git": {"command": "uvx", "args": ["mcp-server-git"]},
    "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}
  }
}
"""
CALL = """\
from mcptools.time.get_current_time import Params, run

print(run(Params(timezone="Asia/Tokyo")))
"""
AGENT = """\
import asyncio

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

server = StdioServerParameters(command="pytools-hybrid", args=["serve", "--root", "tools"])


async def main():
    request = {"query": "show the commit log", "limit": 2}
    async with Client(stdio_client(server)) as client:
        found = await client.call_tool("search_tools", request)
        for tool in found.structured_content["result"]:
            print(tool["id"], "|", tool["description"].partition("\\n")[0])


asyncio.run(main())
"""
_ACTIVATE = ". .venv/bin/activate"
# Each step has a heading, a text, and commands or files; files are shown and written.
STEPS: tuple[tuple[str, str, tuple[str | tuple[str, str], ...]], ...] = (
    (
        "Install",
        "In a clone:",
        ("uv sync --quiet --package pytools-hybrid --extra import", _ACTIVATE),
    ),
    (
        "Import the servers",
        "Claude, Cursor and VS Code use the same format.",
        (("servers.json", SERVERS), "pytools-hybrid import servers.json --root tools"),
    ),
    (
        "Find a tool, and look at it",
        "",
        (
            'pytools-hybrid search "what time is it in Tokyo" --root tools --limit 2',
            "pytools-hybrid describe get_current_time --root tools",
        ),
    ),
    ("Call it", "", (("call.py", CALL), "PYTHONPATH=tools python call.py")),
    (
        "An agent's client asks for another",
        "",
        (("agent.py", AGENT), "python agent.py"),
    ),
    (
        "Check that everything works",
        "",
        ("pytools-hybrid doctor --root tools", "pytools-hybrid list --root tools"),
    ),
)
_LANGUAGES = {".json": "json", ".py": "python"}


def main(prepared: str = "") -> None:
    """Run the steps, and print them."""
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder, "home")
        if prepared:
            shutil.copytree(prepared, home)
        clone = home / "pytools-hybrid"
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True)
        print(INTRODUCTION)
        for heading, said, commands in STEPS:
            print(f"## {heading}\n")
            if said:
                print(f"{said}\n")
            for command in commands:
                if isinstance(command, tuple):
                    write(clone, *command)
                else:
                    run(command, clone, home)
    print(f"All of it took {(time.monotonic() - started) / 60:.1f} minutes.")


def write(clone: Path, name: str, content: str) -> None:
    """Write a file, and print it."""
    (clone / name).write_text(content, encoding="utf-8")
    print(f"`{name}`:\n\n```{_LANGUAGES[Path(name).suffix]}\n{content}```\n")


def run(command: str, clone: Path, home: Path) -> None:
    """Run a command in a shell, as a newcomer would, and print its output."""
    if command == _ACTIVATE:
        print(f"```sh\n{command}\n```\n")
        return
    caller = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTOOLS_", "UV_PROJECT", "VIRTUAL_ENV", "PYTHON", "XDG_"))
    }
    path = os.pathsep.join([str(clone / ".venv" / "bin"), caller["PATH"]])
    started = time.monotonic()
    done = subprocess.run(
        command,
        shell=True,
        cwd=clone,
        env=caller | {"HOME": str(home), "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}")
    shown = re.sub(r"[^\S\n]+$", "", done.stdout.replace(str(home), "~"), flags=re.M)
    print(f"```console\n$ {command}\n{shown}```\n\n{seconds:.0f} s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
