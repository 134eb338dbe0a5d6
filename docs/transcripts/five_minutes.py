# pyright: basic
"""Print the first five minutes with three real MCP servers, as Markdown.

From the root of the repository, with git, uv and npm, and a network:

    uv run python docs/transcripts/five_minutes.py > docs/transcripts/five-minutes.md

It clones what is committed and does in the clone what a newcomer does. Everything is in a temporary
home folder; a folder given as an argument is copied there first, as one with your own settings of
uv and npm, if they need any to reach a registry.
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

From a fresh clone to three MCP servers' tools that an agent finds and that run, as it was done on a
shared machine with two cores. [five_minutes.py](five_minutes.py) has printed this page; the
seconds are those that a command took, with what uv and npm had to fetch.
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
    request = {"query": "show the latest commits", "limit": 2}
    async with Client(stdio_client(server)) as client:
        found = await client.call_tool("search_tools", request)
        for tool in found.structured_content["result"]:
            print(tool["id"], "|", tool["description"].partition("\\n")[0])


asyncio.run(main())
"""
_ACTIVATE = ". .venv/bin/activate"
# Each is a heading, what is said first, and commands; a file is shown, and written.
STEPS: tuple[tuple[str, str, tuple[str | tuple[str, str], ...]], ...] = (
    (
        "Install",
        "In a clone:",
        ("uv sync --quiet --package pytools-hybrid --extra import", _ACTIVATE),
    ),
    (
        "Import the servers",
        "The configuration is one that Claude, Cursor or VS Code have too.",
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
        "Is everything as it should be?",
        "",
        ("pytools-hybrid doctor --root tools", "pytools-hybrid list --root tools"),
    ),
)
_LANGUAGES = {".json": "json", ".py": "python"}


def main(prepared: str = "") -> None:
    """Do it, and print it."""
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
    """Write a file, and show it."""
    (clone / name).write_text(content, encoding="utf-8")
    print(f"`{name}`:\n\n```{_LANGUAGES[Path(name).suffix]}\n{content}```\n")


def run(command: str, clone: Path, home: Path) -> None:
    """Run a command as a newcomer's shell would, and show what it printed."""
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
