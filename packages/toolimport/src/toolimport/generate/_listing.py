"""Asking a server for its tools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from toolimport.connect import Redactor, StderrTail, connected, explain
from toolimport.errors import ServerError
from toolimport.generate._modules import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.client import Client
    from mcp_types import Tool as ListedTool

    from toolimport.connect import ServerEntry

_MOST_PAGES = 1000
_ABOUT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The tools of a server.

    Attributes:
        tools: All tools, in its order, with the secrets of its entry redacted.
        about: The server's description of itself, or an empty string.
        notes: What was simplified, by the tool's name.
        left_out: Why tools were left out, by their place in the list.
    """

    tools: tuple[Tool, ...]
    about: str
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


async def list_tools(entry: ServerEntry, seconds: float) -> Listing:
    """Connect to a server and ask for its tools, page by page.

    Raises:
        ServerError: It cannot be reached, or its answer is invalid.
    """
    tail, redactor = StderrTail(), Redactor(())
    is_late = False
    try:
        parameters = await asyncio.to_thread(entry.parameters)
        redactor = parameters.redactor
        limit = asyncio.timeout(seconds)
        try:
            async with limit, connected(parameters, tail) as client:
                listed = await _pages(client, entry.name)
                about = _about(client)
        finally:
            is_late = limit.expired()
    except Exception as error:  # noqa: BLE001 - of any library; other servers go on
        if is_late:
            problem = f"did not list its tools within {seconds:g} s"
            if tail.repairs.garbled:
                problem += f"; it wrote something that is not a message: {tail.repairs.garbled}"
            raise explain(TimeoutError(problem), entry.name, tail, redactor) from None
        raise explain(error, entry.name, tail, redactor) from None
    tools = [_tool(tool, redactor) for tool in listed]
    distinct = {tool.name: tool for tool in tools}
    # Cut after redaction, because half a secret would not be found.
    shown = cast("str", redactor.listing(about))[:_ABOUT]
    notes = {name: redactor.text(text) for name, text in tail.repairs.notes.items()}
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            notes[tool.name] = "it is listed twice; the last one is used"
        seen.add(tool.name)
    return Listing(
        tools=tuple(distinct.values()),
        about=shown,
        notes=notes,
        left_out=tail.repairs.left_out,
    )


async def _pages(client: Client, server: str) -> list[ListedTool]:
    listed: list[ListedTool] = []
    cursor, seen = None, set[str]()
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None or cursor in seen:
            return listed
        seen.add(cursor)
    raise ServerError(server, f"its list of tools has more than {_MOST_PAGES} pages")


def _tool(tool: ListedTool, redactor: Redactor) -> Tool:
    annotated = tool.annotations.title if tool.annotations else None
    cleaned: dict[str, Any] = cast(
        "dict[str, Any]",
        redactor.listing(
            {
                "description": tool.description or "",
                "title": tool.title or annotated or "",
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
            }
        ),
    )
    return Tool(name=tool.name, annotations=_hints(tool), **cleaned)


def _hints(tool: ListedTool) -> dict[str, bool]:
    given = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
    return {name: it for name, it in given.items() if isinstance(it, bool)}


def _about(client: Client) -> str:
    info = client.server_info
    described = getattr(info, "description", None) or client.instructions
    return str(described or getattr(info, "title", None) or "")
