"""Print sessions in which tools are found and called, with real clients and servers, as Markdown.

From the root of the repository, with uv, npm and access to the network:

    uv run --group adapters python docs/transcripts/calls.py > docs/transcripts/calls.md

Everything is in a temporary home folder. A folder given as an argument is copied there first; it
may contain the settings that uv and npm need to reach a registry. `--offline` skips the first two
sessions, whose servers come from registries.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ElicitResult

REPOSITORY = Path(__file__).resolve().parents[2]
INTRODUCTION = """\
# Sessions with calls

From search to result with no client code. [calls.py](calls.py) generated this page from real
sessions. `~` is an empty home folder.
"""
SERVERS: dict[str, dict[str, Any]] = {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "git": {"command": "uvx", "args": ["mcp-server-git"]},
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "HOME"]},
    "memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]},
}
# Queries, the tools that they should find, and the arguments of the calls.
NEEDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("what time is it in Tokyo", "get_current_time", {"timezone": "Asia/Tokyo"}),
    ("show what changed in the working tree", "git_status", {"repo_path": "HOME/project"}),
    ("write text to a file", "write_file", {"path": "HOME/note.txt", "content": "tea at five"}),
    ("read the whole knowledge graph", "read_graph", {}),
)
TOOLS = {
    "sleep": "import time\n\ndef run():\n    '''Sleep for a minute.'''\n    time.sleep(60)\n",
    "crash": "import os\n\ndef run():\n    '''Crash.'''\n    os._exit(7)\n",
    "shout": "def run():\n    '''Print a lot.'''\n    print('x' * 10_000_000)\n    return 'done'\n",
    "fork": (
        "import os, time\n\ndef run():\n    '''Leave a child behind.'''\n"
        "    if os.fork() == 0:\n        time.sleep(600)\n    return 'parent'\n"
    ),
    "grab": "def run():\n    '''Take 4 GB.'''\n    return len(bytearray(4 << 30))\n",
    "add": "def run(a: int, b: int) -> int:\n    '''Add two numbers.'''\n    return a + b\n",
}
FUNCTIONS = '''
import asyncio
from pytools_hybrid import ToolCorpus


def merge_pdfs(paths: list[str]) -> str:
    """Combine several PDF documents into one."""


async def forecast(town: str) -> str:
    """Predict the weather of the next days."""
    return f"sun in {town}"


[hit] = asyncio.run(ToolCorpus([merge_pdfs, forecast]).search("will it rain?", limit=1))
print(hit.name, asyncio.run(hit.call(town="Oslo")))
'''
_SHOWN = 160
_ALL_ANSWERS = 4


async def main(*arguments: str) -> None:
    """Run the sessions."""
    prepared = [it for it in arguments if it != "--offline"]
    print(INTRODUCTION)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder, "home").resolve()
        shutil.copytree(prepared[0], home) if prepared else home.mkdir()
        if "--offline" not in arguments:
            await set_up(home)
        await misbehave(home)
    await own_functions()


def environment(home: Path, **values: str) -> dict[str, str]:
    """Return the environment of a user with an empty home folder."""
    kept = {
        name: it for name, it in os.environ.items() if not name.startswith(("PYTOOLS_", "XDG_"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return kept | {"HOME": str(home), "PATH": path, "PYTOOLS_EMBEDDING_MODEL": "static"} | values


def say(text: str, home: Path | None = None) -> None:
    """Print text, with paths as if the repository were in the home folder."""
    text = text.replace(str(REPOSITORY), "~/pytools-hybrid")
    print(text.replace(str(home), "~") if home else text)


def run(home: Path, *command: str) -> None:
    """Run a command, and print its output."""
    done = subprocess.run(
        command, env=environment(home), cwd=home, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    text = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).splitlines())
    say(f"```console\n$ {' '.join(command)}\n{text}\n```\n", home)


async def set_up(home: Path) -> None:
    """Set up Cursor, call a tool of each server as Cursor would, and undo the setup."""
    print("## From an empty machine to a call, and back\n")
    print("Cursor has four servers:\n")
    subprocess.run(["git", "init", "--quiet", home / "project"], check=True)
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    text = json.dumps({"mcpServers": SERVERS}, indent=2).replace("HOME", str(home))
    file.write_text(text, encoding="utf-8")
    before = file.read_bytes()
    say(f"```json\n{text}\n```\n", home)
    run(home, "pytools-hybrid", "setup", "cursor", "--yes")
    entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["pytools"]
    server = StdioServerParameters(
        command=entry["command"],
        args=entry["args"],
        env=environment(home) | entry.get("env", {}),
        cwd=home,
    )
    print("The official client starts that entry as Cursor would, searches, and calls. If it is")
    print("asked to confirm a call, it agrees:\n")
    async with Client(stdio_client(server), elicitation_callback=agree) as client:
        for query, name, arguments in NEEDS:
            found = await client.call_tool("search_tools", {"query": query, "limit": 3})
            content: dict[str, Any] = found.structured_content or {}
            ids = [str(it["id"]) for it in content["result"]]
            tool = next(it for it in ids if it.endswith(f":{name}"))
            given = json.loads(json.dumps(arguments).replace("HOME", str(home)))
            say(f"- “{query}” → {', '.join(f'`{it}`' for it in ids)}", home)
            say(f"  `{tool}` with `{json.dumps(given)}`:", home)
            say(f"  `{await called(client, tool, given)}`", home)
    print("\n## An agent that has MCP calls only\n")
    await hold(server, home)
    print("## Everything as it was\n")
    run(home, "pytools-hybrid", "setup", "--undo")
    is_same = file.read_bytes() == before
    print(f"The file is {'the same, byte for byte' if is_same else 'not the same'}.\n")
    if not is_same:
        raise SystemExit("the file differs")


async def agree(context: object, params: object, *_: object) -> ElicitResult:
    """Confirm a call, as a user who is asked would."""
    return ElicitResult(action="accept", content={})


async def called(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool, and return what the user sees."""
    result = await client.call_tool("call_tool", {"id": tool, "arguments": arguments})
    text = " ".join(" ".join(getattr(it, "text", it.type) for it in result.content).split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{'error: ' if result.is_error else ''}{shown}"


async def hold(server: StdioServerParameters, home: Path) -> None:
    """Let an agent do two tasks with searches and calls."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Search for each need, and call the first result."""
        returned = [
            part.content
            for message in messages
            for part in message.parts
            if part.part_kind == "tool-return"
        ]
        if len(returned) in {0, 2}:
            query = "write text to a file" if returned else "what time is it in Tokyo"
            return ModelResponse(parts=[ToolCallPart("search_tools", {"query": query})])
        if len(returned) == _ALL_ANSWERS:
            return ModelResponse(parts=[TextPart("It is written down.")])
        # The toolset unwraps a lone list of results.
        results: list[dict[str, Any]] = json.loads(json.dumps(returned[-1]))
        arguments = {"timezone": "Asia/Tokyo"}
        if len(returned) > 1:
            arguments = {"path": f"{home}/time.txt", "content": json.dumps(returned[1])}
        asked = {"id": results[0]["id"], "arguments": arguments}
        return ModelResponse(parts=[ToolCallPart("call_tool", asked)])

    transport = StdioTransport(
        server.command, server.args, env=server.env, cwd=str(home), keep_alive=False
    )
    tools = MCPToolset(transport, init_timeout=60, elicitation_handler=agree)
    agent = Agent(FunctionModel(model), toolsets=[tools])
    task = "What time is it in Tokyo? Write it to a file."
    async with agent:
        done = await agent.run(task)
    print(f"> {task}\n\n```text")
    for message in done.all_messages():
        for part in message.parts:
            if part.part_kind == "tool-call":
                say(f"→ {part.tool_name} {json.dumps(part.args)}", home)
            elif part.part_kind == "tool-return" or part.part_kind == "text":
                content: Any = part.content
                say(f"← {' '.join(str(content).split())[:_SHOWN]}", home)
    print("```\n")


async def misbehave(home: Path) -> None:
    """Call misbehaving Python tools."""
    print("## Python tools that misbehave\n")
    server = "serve --profile call --run-python"
    print(f"`{server}` over {len(TOOLS)} tools, and what the client sees:\n")
    for name, source in TOOLS.items():
        module = home / "tools" / "gentools" / "odd" / name / "api.py"
        module.parent.mkdir(parents=True)
        module.write_text(source, encoding="utf-8")
    options = ("--profile", "call", "--run-python", "--root", str(home / "tools"))
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pytools_hybrid", "serve", *options, "--database", str(home / "index.db")],
        env=environment(home, PYTOOLS_CALL_TIMEOUT="2"),
        cwd=home,
    )
    others = children(os.getpid())
    async with Client(stdio_client(server)) as client:
        (process,) = children(os.getpid()) - others
        add: tuple[str, dict[str, Any]] = ("gentools:odd:add", {"a": 40, "b": 2})
        say(f"- `add`: `{await called(client, *add)}`")
        before = memory(process)
        for name in TOOLS:
            if name != "add":
                say(f"- `{name}`: `{await called(client, f'gentools:odd:{name}', {})}`")
                say(f"  and then `add`: `{await called(client, *add)}`")
        print(f"\nThe server's memory: {before} MiB before, {memory(process)} MiB after.\n")


def children(process: int) -> set[int]:
    """Return the processes that a process has started; on Linux only."""
    listed = Path(f"/proc/{process}/task").glob("*/children")
    return {int(it) for file in listed for it in file.read_text().split()}


def memory(process: int) -> int:
    """Return how much memory a process uses, in MiB; on Linux only."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (size,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
    return int(size) // 1024


async def own_functions() -> None:
    """Search a program's own functions, and call one."""
    print("## Your own functions\n")
    print("In a few lines:\n")
    print(f"```python\n{FUNCTIONS.strip()}\n```\n")
    done = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FUNCTIONS), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await done.communicate()
    print(f"```text\n{printed.decode().strip()}\n```")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
