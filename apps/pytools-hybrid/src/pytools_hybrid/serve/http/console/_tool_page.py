"""The page of a tool: its details, and whether a request finds it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytools_hybrid.index import FILE_NAME
from pytools_hybrid.search import DetailLevel
from pytools_hybrid.serve.http._parameters import read_query
from pytools_hybrid.serve.http.console._advice import advice
from pytools_hybrid.serve.http.console._place import use_case, verdict
from pytools_hybrid.serve.http.console._search_page import Asked, wanted
from pytools_hybrid.serve.http.console._tool_history import tool_history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue
    from starlette.requests import Request

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.http._searches import Searches

# Some servers' schemas are very long.
_SHOWN_CHARACTERS = 20_000
_SHOWN_PARAMETERS = 100


async def tool_page(request: Request, search: ToolSearch, searches: Searches) -> Mapping[str, Any]:
    """Return the values of a tool's page.

    Raises:
        ProblemError: The query of the page is invalid.
        UnknownToolError: No tool has that name.
        AmbiguousToolError: Several tools have that name.
        DatabaseError: The index cannot be read.
    """
    asked = read_query(Asked, request, skip_empty=True)
    async with searches.turn():
        entry = await search.find(request.path_params["id"])
        id_ = str(entry.id)
        tool = await search.describe(id_, DetailLevel.FULL)
        similar = await search.similar(id_)
        how = asked.how()
        placement = await search.place(asked.q, id_, **how) if asked.q.strip() else None
    file = search.roots.locate(entry.path)[0] / FILE_NAME
    refused = (await search.index.refused()).get(id_)
    return {
        **await tool_history(search, id_),
        "advice": [
            *([f"The model refuses its text, so it has no vector: {refused}"] if refused else []),
            *advice(entry, similar),
        ],
        "id": id_,
        "entry": entry,
        "tool": tool,
        "parameters": entry.parameters[:_SHOWN_PARAMETERS],
        "left_out": len(entry.parameters[_SHOWN_PARAMETERS:]),
        "description": _cut(tool.description or entry.description),
        "stub": _cut(tool.stub or ""),
        "schema": _json(tool.input_schema),
        "output_schema": _json(tool.output_schema),
        "changed": _changed(search, entry.path),
        "similar": similar,
        "query": asked.q,
        "wanted": wanted(request),
        "placement": placement,
        "verdict": "" if placement is None else verdict(placement, asked, search.settings),
        "use_case": use_case(id_, asked.q, file) if placement is not None else None,
        "capabilities": str(file),
    }


def _changed(search: ToolSearch, path: str) -> str:
    root, below = search.roots.locate(path)
    try:
        seconds = (root / below).stat().st_mtime
    except OSError:
        return "unknown: the file no longer exists"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _json(schema: Mapping[str, JsonValue] | None) -> str:
    return "" if schema is None else _cut(json.dumps(schema, ensure_ascii=False, indent=2))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}\n… (cut)"
