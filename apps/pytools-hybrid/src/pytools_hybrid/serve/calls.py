"""Calling the tools that a search has found, for clients that cannot run code.

A tool that was imported from an MCP server is called on that server, if this user imported it: a
tree can come from anywhere, and its manifests can name any file and server. Other Python tools only
run if that is allowed, in a separate process.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import toolscan
from mcp.types import (
    INVALID_REQUEST,
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ErrorData,
    TextContent,
)
from toolimport.runtime import ImportedTool
from toolindex import ToolFilter

from pytools_hybrid.errors import AmbiguousToolError, ToolRefusedError, UnknownToolError
from pytools_hybrid.files import own_folder, replace_file
from pytools_hybrid.search import found_as
from pytools_hybrid.serve.forms import compact_form
from pytools_hybrid.serve.operations import META_PREFIX
from pytools_hybrid.serve.python_tools import PythonTool
from pytools_hybrid.telemetry import CALLS, observe, request_source
from pytools_hybrid.text import one_line, readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import InputRequest, InputResponse
    from toolimport.runtime import ClientHandlers
    from toolindex import ToolEntry

    from pytools_hybrid.search import ToolSearch

PROTOCOL = "io.modelcontextprotocol/"
"""The prefix of `_meta` keys that only concern a client and its own server."""

_FORM_CHARACTERS = 1500
_SHOWN_CHARACTERS = 2000
# Each may use `python_memory`; further calls wait.
_PYTHON_CALLS = 8
_READ_ONLY = "readOnlyHint"
_ONLY_READ_ONLY = "this server only calls tools that are annotated as read-only"
_SHOWN_HINTS = {
    _READ_ONLY: "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
}
_LINKED = (
    "The linked resources are on the tool's own server; this server passes calls on, and cannot "
    "read them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableTool:
    """A tool in the index, with everything that a call needs.

    Attributes:
        schema: The JSON Schema of its arguments; None if unknown.
        annotations: Its server's hints on it, such as `readOnlyHint`.
        refusal: Why it cannot be called here; empty if it can.
    """

    entry: ToolEntry
    schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])
    refusal: str = ""
    _callee: ImportedTool | PythonTool | None = field(default=None, repr=False)

    @property
    def hints(self) -> tuple[str, ...]:
        """The hints that matter for choosing a tool, a word for each."""
        return tuple(word for key, word in _SHOWN_HINTS.items() if self.annotations.get(key))

    def callee(self) -> ImportedTool | PythonTool:
        """Return the object to call, or raise `ToolRefusedError`."""
        if self.refusal or self._callee is None:
            raise ToolRefusedError(str(self.entry.id), self.refusal)
        return self._callee


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """A client's side of a call.

    Attributes:
        meta: The client's metadata.
        on_progress: Called with the progress that the tool reports.
        confirm: Asks the user, if the settings require confirmation for the tool; None if nobody
            can be asked.
        client: Answers questions of the tool's server during the call; None if nobody can be asked.
        search_of: Returns the id of the search that listed a tool, by the tool's id, or None.
    """

    meta: Mapping[str, Any] | None = None
    on_progress: ProgressFnT | None = None
    confirm: Callable[[str], Awaitable[bool | None]] | None = None
    client: ClientHandlers | None = None
    search_of: Callable[[str], str | None] | None = None


class ToolCaller:
    """Calls the tools that an open `ToolSearch` can find; hidden tools cannot be called."""

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._to_confirm = ToolFilter(include=search.settings.confirm)
        self._slots = asyncio.Semaphore(_PYTHON_CALLS)

    async def find(self, name: str) -> CallableTool:
        """Find a tool like `ToolSearch.find`, with everything that a call needs."""
        search = self._search
        return await found_as(self._looked_up, search.index, name, search.policy)

    async def looked_up(self, entries: Iterable[ToolEntry]) -> list[CallableTool]:
        """Return everything that calls to some tools need."""
        return await asyncio.to_thread(lambda: [self._looked_up(entry) for entry in entries])

    async def call(
        self, name: str, arguments: Mapping[str, Any], context: CallContext | None = None
    ) -> CallToolResult:
        """Call a tool, and record whether it worked and how long it took.

        Args:
            name: The tool, as `ToolSearch.find` takes it.
            arguments: JSON values that match its schema.
            context: The client's side, if it takes part in the call.

        Returns:
            The server's whole answer, even if it says that the tool failed.

        Raises:
            UnknownToolError: No tool has that name, or it is hidden.
            AmbiguousToolError: Several have it.
            ToolRefusedError: It cannot be called here, the arguments are invalid, or nobody agreed.
            ToolCallError: Its server could not be reached, or answered with an error.
        """
        context = context or CallContext()
        with observe(CALLS, request_source.get(), "") as seen:
            try:
                tool = await self.find(name)
                id_ = tool.entry.id
                seen.labels = request_source.get(), id_.category
                seen.note(id_.name, {"gen_ai.tool.name": id_.name, "pytools.tool": str(id_)})
                callee = tool.callee()
                await self._check(tool, callee, arguments, context)
                result = await self._timed(tool, callee, arguments, context)
            except (ToolRefusedError, UnknownToolError, AmbiguousToolError):
                seen.outcome = "refused"
                raise
            seen.outcome = "error" if result.is_error else "ok"
        return result if isinstance(callee, PythonTool) else _passed_on(result)

    async def _check(
        self,
        tool: CallableTool,
        callee: ImportedTool | PythonTool,
        arguments: Mapping[str, Any],
        context: CallContext,
    ) -> None:
        """Refuse invalid arguments, and a call that the user does not confirm."""
        id_ = str(tool.entry.id)
        if problems := callee.problems(arguments):
            form = compact_form(callee.input_schema or {}, length=_FORM_CHARACTERS)
            problem = one_line(" ".join(problems), _SHOWN_CHARACTERS)
            raise ToolRefusedError(id_, f"{problem} It takes {form}.")
        if not self._to_confirm.include or not self._to_confirm.passes_id(id_):
            return
        given = one_line(json.dumps(arguments, ensure_ascii=False), _SHOWN_CHARACTERS)
        answer = await context.confirm(f"Call {id_} with {given}?") if context.confirm else None
        if answer is None:
            reason = (
                "its calls must be confirmed (PYTOOLS_CONFIRM), and this client cannot ask its "
                "user; use a client that supports elicitation"
            )
            raise ToolRefusedError(id_, reason)
        if not answer:
            raise ToolRefusedError(id_, "declined by the user")

    async def _timed(
        self,
        tool: CallableTool,
        callee: ImportedTool | PythonTool,
        arguments: Mapping[str, Any],
        context: CallContext,
    ) -> CallToolResult:
        """Make the call, and record its outcome."""
        id_ = str(tool.entry.id)
        search_id = context.search_of(id_) if context.search_of else None
        timer = _Timer(tool.entry.id.category, context.client)
        record = partial(self._search.index.recorder.outcome, id_, search_id=search_id)
        try:
            result = await callee.call(
                arguments,
                meta=context.meta,
                on_progress=context.on_progress,
                client=timer.client(),
            )
        except Exception:
            # Not a cancellation, which says nothing about the tool.
            record(success=False, latency_ms=1000 * timer.seconds)
            raise
        record(success=not result.is_error, latency_ms=1000 * timer.seconds)
        return result

    def _looked_up(self, entry: ToolEntry) -> CallableTool:
        settings, roots = self._search.settings, self._search.roots
        root, relative = roots.resolve(entry.path)
        module = root / relative
        if not settings.outside_links and not _is_inside(module, root):
            refusal = "its file is outside the root, behind a symbolic link"
            return CallableTool(entry=entry, refusal=refusal)
        imported = ImportedTool.read(module)
        if imported is None:
            return self._python_tool(entry, root, relative)
        if imported.input_schema is None:
            imported = replace(imported, input_schema=_schema(module, root))
        refusal = ""
        if not _is_trusted(imported.servers_file, root):
            refusal = (
                f"not started: you have not imported {imported.servers_file} into {root}. If you "
                f"trust it, run pytools-hybrid import {imported.servers_file}"
            )
        elif settings.read_only and not imported.annotations.get(_READ_ONLY):
            refusal = _ONLY_READ_ONLY
        return CallableTool(
            entry=entry,
            schema=imported.input_schema,
            annotations=imported.annotations,
            refusal=refusal,
            _callee=imported,
        )

    def _python_tool(self, entry: ToolEntry, root: Path, relative: str) -> CallableTool:
        settings, shown = self._search.settings, self._search.roots.display_path(entry.path)
        if not settings.run_python or settings.read_only:
            refusal = (
                _ONLY_READ_ONLY
                if settings.run_python
                else "only tools imported from MCP servers can be called; this is a Python module, "
                f"which `--run-python` would run: {shown}"
            )
            return CallableTool(entry=entry, refusal=refusal)
        try:
            record = toolscan.read_tool(
                relative, root, name=entry.id.name, layouts=self._search.roots.layouts
            )
        except (toolscan.ToolScanError, OSError) as error:
            return CallableTool(entry=entry, refusal=f"its file cannot be read: {error}")
        schema = toolscan.input_schema(record)
        tool = PythonTool(
            root=root,
            record=record,
            input_schema=schema,
            python=settings.python,
            memory=settings.python_memory,
            slots=self._slots,
        )
        return CallableTool(entry=entry, schema=schema, _callee=tool)


class _Timer:
    """Times a call, without the client's time for answers, and names the server that asks."""

    def __init__(self, server: str, client: ClientHandlers | None) -> None:
        self._server = server
        self._client = client
        self._started = self._asked_at = time.perf_counter()
        self._waited = 0.0
        self._open = 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started - self._waited

    def client(self) -> ClientHandlers | None:
        return self._client and replace(self._client, answer=self._answer)

    async def _answer(self, request: InputRequest) -> InputResponse | ErrorData:
        if isinstance(request, ElicitRequest):
            shown = _shown_question(request, self._server)
            if isinstance(shown, ErrorData):
                return shown
            request = shown
        # Several questions may be open at once.
        if not self._open:
            self._asked_at = time.perf_counter()
        self._open += 1
        try:
            if TYPE_CHECKING:
                assert self._client is not None
            return await self._client.answer(request)
        finally:
            self._open -= 1
            if not self._open:
                self._waited += time.perf_counter() - self._asked_at


def _is_inside(file: os.PathLike[str], root: os.PathLike[str]) -> bool:
    inside, outer = os.path.realpath(file), os.path.realpath(root)
    return os.path.commonpath([inside, outer]) == outer


def _schema(module: os.PathLike[str], root: os.PathLike[str]) -> Mapping[str, Any] | None:
    """Return the schema of a module's parameters, if the import did not record the server's."""
    try:
        record = toolscan.read_tool(module, root, outside_links=True)
    except (toolscan.ToolScanError, OSError):
        return None
    return cast("Mapping[str, Any] | None", toolscan.input_schema(record))


def trust(servers_file: Path, root: Path) -> None:
    """Record in the user's own folder that this user has imported a file of servers into a root."""
    note = _note(servers_file, root)
    note.parent.mkdir(parents=True, exist_ok=True)
    content = {"servers_file": _full(servers_file), "root": _full(root)}
    replace_file(note, json.dumps(content, indent=1).encode() + b"\n", mode=0o600)


def _is_trusted(servers_file: Path, root: Path) -> bool:
    """Return whether the file was imported, or is overridden by `PYTOOLS_SERVERS`."""
    return bool(os.environ.get("PYTOOLS_SERVERS")) or _note(servers_file, root).is_file()


def _note(servers_file: Path, root: Path) -> Path:
    pair = json.dumps([_full(servers_file), _full(root)])
    return own_folder() / "imported" / f"{sha256(pair.encode()).hexdigest()[:32]}.json"


def _full(path: Path) -> str:
    return os.path.realpath(path.expanduser())


def _passed_on(result: CallToolResult) -> CallToolResult:
    """Return a server's answer without metadata that could be taken for ours or for the protocol's.

    Notes on invalid parts, on numbers that JSON lacks and on links follow as texts.
    """
    meta = dict(result.meta or {})
    # The note of toolimport, which no server can set.
    notes = [str(meta.pop("toolimport/note", ""))]
    structured = _mapped(result.structured_content, _finite)
    if structured != result.structured_content:
        notes.append("NaN and infinite numbers were replaced by text, because JSON has none.")
    content = list(result.content)
    if any(block.type == "resource_link" for block in content):
        content.append(TextContent(type="text", text=_LINKED))
    if note := " ".join(filter(None, notes)):
        content.append(TextContent(type="text", text=readable(note)))
    own = {key: it for key, it in meta.items() if not key.startswith((PROTOCOL, META_PREFIX))}
    update = {"content": content, "meta": own or None}
    # Only if it was replaced, because a field that is set counts as present.
    if structured != result.structured_content:
        update["structured_content"] = structured
    return result.model_copy(update=update)


def _shown_question(request: ElicitRequest, server: str) -> ElicitRequest | ErrorData:
    """Return a question to the user that names the server, and is safe to show on a terminal."""
    asked = request.params
    update: dict[str, Any] = {"message": f"[{server}] {readable(asked.message)}"}
    if isinstance(asked, ElicitRequestURLParams):
        if not asked.url.isprintable():
            return ErrorData(code=INVALID_REQUEST, message="the address has invisible characters")
    else:
        update["requested_schema"] = _mapped(asked.requested_schema, _readable)
    return request.model_copy(update={"params": asked.model_copy(update=update)})


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return a JSON value with other texts, numbers and names."""
    if isinstance(value, list):
        return [_mapped(it, change) for it in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {change(key): _mapped(it, change) for key, it in items}
    return change(value)


def _finite(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _readable(value: object) -> object:
    return readable(value) if isinstance(value, str) else value
