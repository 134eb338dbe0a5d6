"""Print a session of an MCP client with the server over the example tools, as Markdown.

From the root of the repository:

    uv run python docs/transcripts/make.py > docs/transcripts/agent.md

A test checks that `agent.md` is what this prints. So that it stays the same from run to run,
ids of searches and states of the index are shown as `…`, and numbers with two digits.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import TextContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.types import CallToolResult, Tool

REPOSITORY = Path(__file__).parents[2]
INTRODUCTION = """\
# A session of an agent

What an MCP client and `pytools-hybrid serve --root examples/tools` say to each other, for the task

> Join contract.pdf and annex.pdf, mail the result to Kim, and put a review on Friday at ten into \
my calendar.

[make.py](make.py) has printed this from a real session. Of the answers it shows the text, which
is what a model reads, and of searches `_meta`; `structuredContent` has the same results with
`name`, `category` and `source` besides. JSON is set out over several lines; numbers have two
digits; `…` stands for ids of searches and states of the index, which differ from run to run.
"""
_VARYING = {"pytools/search_id", "pytools/generation"}
# The SDK adds the server's name to each answer.
_OURS = "pytools/"


async def main() -> None:
    """Run the session."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = [sys.executable, "-m", "pytools_hybrid"]
        tools = ["--root", "examples/tools", "--database", str(Path(folder, "index.db"))]
        # Show an installation without extras.
        environment = {
            name: it for name, it in os.environ.items() if not name.startswith("PYTOOLS_")
        } | {"PYTOOLS_EMBEDDING_MODEL": "static"}
        # Index first, or the answers would report the progress of embedding.
        subprocess.run(
            [*program, "index", *tools],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            check=True,
        )
        server = StdioServerParameters(
            command=program[0],
            args=[*program[1:], "serve", *tools],
            cwd=REPOSITORY,
            env=environment,
        )
        async with Client(stdio_client(server)) as client:
            # Until a server has opened its index, it lists no categories.
            await client.call_tool("search_tools", {"query": "pdf"})
            await hold(client)


async def hold(client: Client) -> None:
    """Do the task as an agent would, and print it."""
    print(INTRODUCTION)
    heading("The client connects")
    name = client.server_info.name if client.server_info else ""
    print(f"The server is called `{name}`. Its instructions:\n")
    print("\n".join(f"> {line}" for line in (client.instructions or "").splitlines()), end="\n\n")

    heading("It lists the tools")
    for tool in (await client.list_tools()).tools:
        print(f"- `{signature(tool)}`: {tool.description}")
    print()

    heading("Three searches at once, one for each step")
    queries = ["merge pdf files", "send an email with an attachment", "create a calendar event"]
    asked = [{"query": query, "limit": 2} for query in queries]
    found = await asyncio.gather(*(client.call_tool("search_tools", it) for it in asked))
    for arguments, answer in zip(asked, found, strict=True):
        exchange("search_tools", arguments, answer)

    heading("How the first is called")
    await call(client, "describe_tool", {"id": "mcptools:pdf:merge_pdfs"})
    heading("A name that two systems write differently")
    await call(client, "describe_tool", {"id": "mail__send_email", "detail": "summary"})

    heading("A wrong argument, a name that is not there, and a need that nothing fits")
    await call(client, "search_tools", {"query": "merge pdf files", "mode": "semantic"})
    await call(client, "describe_tool", {"id": "pdf.merge"})
    await call(client, "search_tools", {"query": "knit a sweater", "threshold": 0.5})

    heading("The tool was run, and worked")
    arguments = {"tool_id": "mcptools:pdf:merge_pdfs", "success": True, "latency_ms": 840}
    await call(client, "report_outcome", arguments)


async def call(client: Client, name: str, arguments: dict[str, Any]) -> None:
    """Call a tool, and print the request and the answer."""
    exchange(name, arguments, await client.call_tool(name, arguments))


def exchange(name: str, arguments: Mapping[str, Any], answer: CallToolResult) -> None:
    """Print a call and its answer."""
    print(f"`{name}` with `{compact(arguments)}`\n")
    (text,) = (block.text for block in answer.content if isinstance(block, TextContent))
    if answer.is_error:
        print("An error:\n")
    elif name == "describe_tool":
        print_json(json.loads(text))
        return
    print("```text")
    for line in text.splitlines():
        print(compact(json.loads(line)) if is_json(line) else line)
    print("```\n")
    meta = {key: it for key, it in (answer.meta or {}).items() if key.startswith(_OURS)}
    if meta:
        print("and in `_meta`\n")
        print_json(meta)


def is_json(text: str) -> bool:
    """Return whether a line of a text is a JSON object."""
    return text.startswith("{")


def compact(value: Any) -> str:  # noqa: ANN401 - any value of JSON
    """Return a JSON value on one line."""
    return json.dumps(stable(value), ensure_ascii=False)


def heading(text: str) -> None:
    """Print the heading of a part."""
    print(f"## {text}\n")


def print_json(value: Any) -> None:  # noqa: ANN401 - any value of JSON
    """Print a value over several lines."""
    print(f"```json\n{json.dumps(stable(value), indent=2, ensure_ascii=False)}\n```\n")


def signature(tool: Tool) -> str:
    """Return the signature of a tool on one line, as in Python."""
    required = tool.input_schema.get("required", [])
    arguments = [
        name if name in required else f"{name}={field.get('default')!r}"
        for name, field in tool.input_schema["properties"].items()
    ]
    return f"{tool.name}({', '.join(arguments)})"


def stable(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a JSON value without the parts that differ between runs or processors."""
    match value:
        case dict():
            return {k: "…" if k in _VARYING else stable(each) for k, each in value.items()}
        case list():
            return [stable(each) for each in value]
        case float():
            return round(value, 2)
    return value


if __name__ == "__main__":
    asyncio.run(main())
