"""Check that a client library can use the installed server.

Each script of this folder runs in an environment with one client library and none of our packages:

    python mcp_v1.py path/to/pytools-hybrid path/to/examples/tools
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Answer", "Session", "main"]

FIELDS = [
    *("name", "category", "source", "description", "score", "confidence", "match_type"),
    *("path", "id", "signature"),
]
TOKEN = "only-for-this-run"
# Many times what a slow machine needs.
SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The outcome of a call: a value, or an error and its text."""

    failed: bool
    text: str
    value: Any = None


class Session(Protocol):
    """A connection to the server; each script implements it with its client library."""

    @property
    def server(self) -> str:
        """The server's name."""

    async def tools(self) -> dict[str, dict[str, Any]]:
        """The input schemas of the tools, by name."""

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool, perhaps with invalid arguments."""


OverStdio = Callable[[list[str]], AbstractAsyncContextManager[Session]]
OverHttp = Callable[[str, str], AbstractAsyncContextManager[Session]]


def main(over_stdio: OverStdio, over_http: OverHttp, *more: Callable[[], Awaitable[None]]) -> None:
    """Run all checks, and those given, with the command and the tree of the command line."""
    command, tree = (str(Path(argument).absolute()) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as home:
        # Some clients pass on only a few variables; HOME is one, and determines the index's folder.
        os.environ.update(HOME=home, USERPROFILE=home, PYTOOLS_DIR=tree)
        os.environ.update(PATH=f"{Path(command).parent}{os.pathsep}{os.environ['PATH']}")
        asyncio.run(asyncio.wait_for(_check(command, over_stdio, over_http, *more), SECONDS))


async def _check(
    command: str,
    over_stdio: OverStdio,
    over_http: OverHttp,
    *more: Callable[[], Awaitable[None]],
) -> None:
    async with over_stdio([command, "serve"]) as session:
        await searches(session)
        await refuses_wrong_arguments(session)
    print("stdio: ok")
    async with over_stdio([command, "serve", "--profile", "basic"]) as session:
        await browses(session)
    print("stdio, basic: ok")
    async with _listening(command) as url, over_http(f"{url}/mcp", TOKEN) as session:
        await searches(session)
        await refuses_wrong_arguments(session)
    print("http: ok")
    for check in more:
        await check()


async def searches(session: Session) -> None:
    """Check listing tools, a search, a description and a reported outcome."""
    assert session.server == "pytools", session.server
    tools = await session.tools()
    assert sorted(tools) == ["describe_tool", "report_outcome", "search_tools"], sorted(tools)
    assert tools["search_tools"]["required"] == ["query"]

    results: list[Any] = []
    while len(results) < 3:
        # Until its first scan is done, a slow machine answers with an error, or with a few tools.
        answer = await session.call("search_tools", query="create an issue", limit=3)
        assert not answer.failed or "again" in answer.text, answer
        results = [] if answer.failed else answer.value["result"]
        await asyncio.sleep(0.1)
    assert len(results) == 3, results
    # While tools are embedded, the first has a note.
    assert [name for name in results[0] if name != "note"] == FIELDS, list(results[0])
    assert results[0]["id"] == "mcptools:github:create_issue", results[0]
    assert Path(results[0]["path"]).is_file(), results[0]

    described = await session.call("describe_tool", id=results[0]["id"])
    assert not described.failed, described
    assert "title" in described.value["input_schema"]["properties"], described
    reported = await session.call("report_outcome", tool_id=results[0]["id"], success=True)
    assert not reported.failed, reported


async def refuses_wrong_arguments(session: Session) -> None:
    """Check that an error says what is allowed, and that the next call is answered."""
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("search_tools", {"query": "mail", "mode": "nosuch"}, "hybrid"),
        ("search_tools", {"query": "mail", "scope": "nosuch"}, "gentools"),
        ("search_tools", {"query": "mail", "limit": 0}, "50"),
        ("search_tools", {}, "query"),
        ("describe_tool", {"id": "create_isue"}, "mcptools:github:create_issue"),
    ]
    for tool, arguments, expected in wrong:
        answer = await session.call(tool, **arguments)
        assert answer.failed, (tool, arguments, answer)
        assert expected in answer.text, (tool, arguments, answer.text)
    answer = await session.call("search_tools", query="merge two pdf files")
    assert answer.value["result"][0]["id"] == "mcptools:pdf:merge_pdfs", answer


async def browses(session: Session) -> None:
    """Check the profile `basic`: categories, and the tools of some."""
    assert sorted(await session.tools()) == ["list_categories", "list_tools"]
    categories = (await session.call("list_categories")).value
    assert "github" in categories["mcptools"], categories
    for asked in ("github", ["github", "nosuch"]):
        listed = (await session.call("list_tools", categories=asked)).value
        # Some SDKs wrap a mapping, others do not.
        github = listed.get("result", listed)["github"]
        assert any(path.endswith("github/create_issue.py") for path in github["mcptools"]), github


@asynccontextmanager
async def _listening(command: str) -> AsyncIterator[str]:
    """Serve over HTTP at a free port, and yield the address that the server prints."""
    process = await asyncio.create_subprocess_exec(
        *(command, "serve", "--transport", "http", "--port", "0"),
        env=os.environ | {"PYTOOLS_TOKEN": TOKEN},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        said = b""
        while not (found := re.search(rb"http://[\w.:\[\]]+:\d+", said)):
            line = await process.stderr.readline()
            assert line, f"the server ended: {said.decode()}"
            said += line
        draining = asyncio.create_task(process.stderr.read())
        yield found[0].decode()
        process.terminate()
        await process.wait()
        await draining
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
