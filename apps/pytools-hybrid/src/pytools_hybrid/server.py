"""The MCP server: `search_tools` over stdio."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field
from toolindex import ToolIndexError
from toolrank import ToolRankError

from pytools_hybrid.search import MAX_LIMIT, Scope, SearchMode
from pytools_hybrid.service import ToolSearch
from pytools_hybrid.upkeep import Upkeep

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from pytools_hybrid.search import FoundTool
    from pytools_hybrid.settings import Settings

__all__ = ["ToolResult", "create_server", "serve"]

_log = logging.getLogger("pytools_hybrid")

_SHUTDOWN_SECONDS = 0.5
_INSTRUCTIONS = """\
Finds Python tools by what they do. Call search_tools with a short, focused description of \
one need (for a task of several steps, one call a step), then read the source at `path` \
before using a tool.\
"""


class ToolResult(BaseModel):
    """A tool that was found."""

    name: str = Field(description="Tool name, as in 'create_issue'")
    category: str = Field(description="Category or server, as in 'github'")
    source: str = Field(description="'mcptools' or 'gentools'")
    description: str = Field(description="The tool's full docstring")
    score: float = Field(ge=0, le=1, description="Rank score of this search")
    confidence: float = Field(ge=0, le=1, description="How sure it is that the tool does this")
    duplicates: list[str] = Field(description="Ids of equal tools that were left out")
    path: str = Field(description="Source file of the tool")
    id: str = Field(description="source:category:name")


def create_server(search: ToolSearch, upkeep: Upkeep) -> MCPServer[None]:
    """Make the MCP server of an open `ToolSearch` whose upkeep runs beside it."""
    server: MCPServer[None] = MCPServer(
        "pytools",
        title="Python tool search",
        instructions=_INSTRUCTIONS,
        version=version("pytools-hybrid"),
        log_level=search.settings.log_level,
    )

    @server.tool(
        title="Search tools",
        annotations=ToolAnnotations(
            title="Search tools",
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
    async def search_tools(
        query: Annotated[str, Field(description="What the tool should do, in plain language")],
        mode: Annotated[
            Literal["hybrid", "bm25", "vector"],
            Field(description="'hybrid': words and meaning; 'bm25': words; 'vector': meaning"),
        ] = "hybrid",
        scope: Annotated[
            Literal["all", "gentools", "mcptools"], Field(description="Which tools to search")
        ] = "all",
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Results at most")] = 5,
    ) -> Annotated[CallToolResult, list[ToolResult]]:
        """Find tools by what they do; the best come first."""
        await upkeep.ready()
        try:
            response = await search.search(
                query, mode=SearchMode(mode), scope=Scope(scope), limit=limit
            )
        except (ToolIndexError, ToolRankError) as error:
            raise ToolError(str(error)) from error
        results = [_to_result(found, search.root) for found in response.tools]
        texts = [result.model_dump_json(indent=2) for result in results] + list(response.notes)
        return CallToolResult(
            content=[TextContent(type="text", text=text) for text in texts],
            structured_content={"result": [result.model_dump() for result in results]},
            _meta={
                "pytools/notes": list(response.notes),
                "pytools/generation": response.generation,
            },
        )

    return server


def serve(settings: Settings, root: Path) -> None:
    """Serve over stdio until the client goes or a signal comes, then end the process.

    Raises:
        ToolIndexError: The index cannot be opened.
    """
    asyncio.run(_until_stopped(ToolSearch(settings, root)))


async def _until_stopped(search: ToolSearch) -> None:
    stopped = asyncio.Event()
    _on_signals(stopped)
    client = asyncio.create_task(_serve(search))
    signalled = asyncio.create_task(stopped.wait())
    await asyncio.wait({client, signalled}, return_when=asyncio.FIRST_COMPLETED)
    status = 0
    if not client.done():
        # What is noted of the last searches is written, if that can be done at once.
        flushing = asyncio.create_task(search.flush())
        await asyncio.wait({flushing}, timeout=_SHUTDOWN_SECONDS)
    if client.done() and (error := client.exception()) is not None:
        if isinstance(error, ToolIndexError):
            raise error
        error = _innermost(error)
        is_ours = not isinstance(error, OSError | ValueError)
        _log.error("the connection broke: %s", error, exc_info=error if is_ours else None)
        status = 1
    # A thread may still wait for a line on stdin, or be inside a long scan, and an ordinary
    # exit would wait for it. What the index holds is safe at every moment.
    sys.stderr.flush()
    os._exit(status)


async def _serve(search: ToolSearch) -> None:
    async with search:
        upkeep = Upkeep(search)
        following = asyncio.create_task(upkeep.run())
        await create_server(search, upkeep).run_stdio_async()
        following.cancel()
        await asyncio.wait({following}, timeout=_SHUTDOWN_SECONDS)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _on_signals(stopped: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stop(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stopped.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped.set)
        except NotImplementedError:
            # Windows' event loop has no signal handlers of its own.
            signal.signal(number, stop)


def _to_result(found: FoundTool, root: Path) -> ToolResult:
    entry = found.entry
    return ToolResult(
        name=entry.id.name,
        category=entry.id.category,
        source=entry.id.source,
        description=entry.description,
        score=round(found.score, 6),
        confidence=round(found.confidence, 6),
        duplicates=list(found.duplicates),
        path=os.fsencode((root / entry.path).as_posix()).decode("utf-8", "backslashreplace"),
        id=str(entry.id),
    )
