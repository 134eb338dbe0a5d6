"""Checking the MCP server, started as by a client."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

from pytools_hybrid.errors import innermost
from pytools_hybrid.reports.doctor._database import name_of
from pytools_hybrid.reports.doctor._finding import Verdict, failed, fine

if TYPE_CHECKING:
    from mcp.client.client import Client

    from pytools_hybrid.settings import Roots, Settings

_MOST_BYTES = 500 << 20
_SHOWN = 400
# The server uses a copy of the index. It does not update it, or record searches in it.
_QUIETLY = {"PYTOOLS_SYNC": "false", "PYTOOLS_WATCH": "false", "PYTOOLS_USAGE_LOG": "false"}


def look_at_server(
    settings: Settings,
    roots: Roots,
    database: Path,
    *,
    settings_file: Path | None = None,
    program: tuple[str, ...] = (sys.executable, "-m", "pytools_hybrid"),
    seconds: float = 45.0,
) -> Verdict:
    """Start the server over stdio, on a copy of the index, list its tools and run a search.

    The search uses words alone, so that no model is called.
    """
    with (
        TemporaryDirectory(prefix="pytools-doctor-") as folder,
        Path(folder, "stderr").open("w+", encoding="utf-8", errors="replace") as errors,
    ):
        copy = Path(folder, "index.db")
        query = _copied(database, copy, roots)
        # The policy may hide the tool that the search looks for.
        must_find = query is not None and not (settings.include or settings.exclude)
        trees = [part for root in roots for part in ("--root", str(root))]
        flags = ["--db", str(copy), "--embedding-model", settings.embedding_model]
        variables = dict(_QUIETLY)
        if settings_file is not None:
            variables["PYTOOLS_CONFIG"] = str(settings_file)
        command = [*program, "serve", *trees, *flags, "--transport", "stdio"]
        started = time.perf_counter()
        try:
            said = asyncio.run(
                _round_trip(command, variables, query, errors, must_find=must_find, seconds=seconds)
            )
        except Exception as error:  # noqa: BLE001 - the client raises groups of what it meets
            remedy = shlex.join(["pytools-hybrid", "serve", *trees])
            return failed(f"no answer ({_words(error, seconds)}){_last_words(errors)}", remedy)
    return fine(f"starts and answers in {time.perf_counter() - started:.1f} s: {said}")


async def _round_trip(
    command: list[str],
    variables: dict[str, str],
    query: str | None,
    errors: TextIO,
    *,
    must_find: bool,
    seconds: float,
) -> str:
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env=os.environ | variables
    )
    # With asyncio's time-out instead of anyio's, the client would not stop the process.
    with anyio.fail_after(seconds):
        async with Client(stdio_client(parameters, errlog=errors)) as client:
            return await _asked(client, query, must_find=must_find)


async def _asked(client: Client, query: str | None, *, must_find: bool) -> str:
    names = [tool.name for tool in (await client.list_tools()).tools]
    shown = f"{len(names)} MCP tools ({', '.join(names)})"
    if "search_tools" not in names:
        return shown
    asked = {"query": query or "anything", "mode": "bm25"}
    answer = await client.call_tool("search_tools", asked)
    content: dict[str, Any] = answer.structured_content or {}
    found = content.get("result", [])
    if answer.is_error or (must_find and not found):
        raise RuntimeError(f"a search for {query!r} found nothing")
    return f"{shown}, a search found {len(found)}" if query else f"{shown}, nothing to search yet"


def _copied(database: Path, copy: Path, roots: Roots) -> str | None:
    """Copy the index, if it exists, and return words that find a tool in it."""
    import apsw
    from toolindex import ToolIndex, ToolIndexError

    with suppress(ToolIndexError, OSError):
        if not 0 < database.stat().st_size < _MOST_BYTES:
            return None
        with ToolIndex(database, read_only=True) as index, index.reading() as reader:
            # The server refuses an index of other trees; another check reports that.
            index.bind(name_of(roots))
            first = reader.connection.execute("SELECT name_words FROM entries LIMIT 1").get
            target = apsw.Connection(str(copy))
            try:
                with target.backup("main", reader.connection, "main") as backup:
                    backup.step()
            finally:
                target.close()
            return str(first) if first else None
    return None


def _last_words(errors: TextIO) -> str:
    errors.seek(0)
    text = " ".join(errors.read().split())
    return f"; its last output: {text[-_SHOWN:]}" if text else ""


def _words(error: BaseException, seconds: float) -> str:
    error = innermost(error)
    if isinstance(error, TimeoutError):
        return f"within {seconds:g} s"
    return str(error).partition("\n")[0] or type(error).__name__
