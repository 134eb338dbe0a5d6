"""Calling tools, whichever interface a client uses."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import toolscan
from mcp.types import ElicitRequest, ErrorData
from toolimport.runtime import ImportedTool
from toolindex import ToolFilter

from pytools_hybrid.errors import AmbiguousToolError, ToolRefusedError, UnknownToolError
from pytools_hybrid.search import found_as
from pytools_hybrid.serve.calls._forms import compact_form
from pytools_hybrid.serve.calls._python import PythonTool
from pytools_hybrid.serve.calls._received import received, shown_question
from pytools_hybrid.serve.calls._trust import is_trusted
from pytools_hybrid.serve.operations import META_PREFIX
from pytools_hybrid.telemetry import CALLS, observe, request_source
from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult, InputRequest, InputResponse
    from toolimport.runtime import ClientHandlers
    from toolindex import ToolEntry

    from pytools_hybrid.search import ToolSearch

    Confirm = Callable[[str], Awaitable[bool | None]]

_FORM_CHARACTERS = 1500
_QUESTION_CHARACTERS = 2000
_PROBLEM_CHARACTERS = 2000
# Each may use `python_memory`; further calls wait.
_PYTHON_CALLS = 8
_READ_ONLY = "readOnlyHint"
_ONLY_READ_ONLY = "this server only calls tools that are annotated as read-only"
_SHOWN_HINTS = {
    _READ_ONLY: "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
}


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
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        confirm: Confirm | None = None,
        client: ClientHandlers | None = None,
        search_of: Callable[[str], str | None] | None = None,
    ) -> CallToolResult:
        """Call a tool, and record whether it worked and how long it took.

        Args:
            name: The tool, as `ToolSearch.find` takes it.
            arguments: JSON values that match its schema.
            meta: The client's metadata.
            on_progress: Called with the progress that the tool reports.
            confirm: Asks the user, if the settings require confirmation for this tool; None if
                nobody can be asked.
            client: Answers questions of the tool's server during the call; None if nobody can be
                asked.
            search_of: Returns the id of the search that listed a tool, by the tool's id, or None.

        Returns:
            The server's whole answer, even if it says that the tool failed.

        Raises:
            UnknownToolError: No tool has that name, or it is hidden.
            AmbiguousToolError: Several have it.
            ToolRefusedError: It cannot be called here, the arguments are invalid, or nobody agreed.
            ToolCallError: Its server could not be reached, or answered with an error.
        """
        with observe(CALLS, request_source.get(), "") as seen:
            try:
                tool = await self.find(name)
                id_ = tool.entry.id
                seen.labels = request_source.get(), id_.category
                seen.note(id_.name, {"gen_ai.tool.name": id_.name, "pytools.tool": str(id_)})
                search_id = search_of(str(id_)) if search_of else None
                result = await self._called(
                    tool, arguments, meta, on_progress, confirm, client, search_id
                )
            except (ToolRefusedError, UnknownToolError, AmbiguousToolError):
                seen.outcome = "refused"
                raise
            seen.outcome = "error" if result.is_error else "ok"
        return result

    async def _called(
        self,
        tool: CallableTool,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        on_progress: ProgressFnT | None,
        confirm: Confirm | None,
        client: ClientHandlers | None,
        search_id: str | None,
    ) -> CallToolResult:
        callee = tool.callee()
        if problems := callee.problems(arguments):
            form = compact_form(callee.input_schema or {}, length=_FORM_CHARACTERS)
            problem = one_line(" ".join(problems), _PROBLEM_CHARACTERS)
            raise ToolRefusedError(str(tool.entry.id), f"{problem} It takes {form}.")
        if self._to_confirm.include and self._to_confirm.passes_id(str(tool.entry.id)):
            await _agreed(tool, arguments, confirm)
        timed = _Timed(tool.entry.id.category, client)
        try:
            result = await callee.call(
                arguments, meta=meta, on_progress=on_progress, client=timed.caller()
            )
        except Exception:
            # Not a cancellation, which says nothing about the tool.
            self._note(tool, timed, search_id, success=False)
            raise
        self._note(tool, timed, search_id, success=not result.is_error)
        return result if isinstance(callee, PythonTool) else _without_our_keys(received(result))

    def _note(
        self, tool: CallableTool, timed: _Timed, search_id: str | None, *, success: bool
    ) -> None:
        self._search.index.recorder.outcome(
            str(tool.entry.id),
            success=success,
            latency_ms=1000 * timed.seconds,
            search_id=search_id,
        )

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
        if not is_trusted(imported.servers_file, root):
            refusal = (
                f"its server is not started, because {imported.servers_file} was not imported into "
                f"{root} by this user; if you trust both, run `pytools-hybrid import`, or set "
                "PYTOOLS_SERVERS to the file that configures the server"
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


class _Timed:
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

    def caller(self) -> ClientHandlers | None:
        return self._client and replace(self._client, answer=self._answer)

    async def _answer(self, request: InputRequest) -> InputResponse | ErrorData:
        if isinstance(request, ElicitRequest):
            shown = shown_question(request, self._server)
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


def _without_our_keys(result: CallToolResult) -> CallToolResult:
    """Return an answer whose metadata cannot be taken for this server's."""
    meta = {key: it for key, it in (result.meta or {}).items() if not key.startswith(META_PREFIX)}
    return result.model_copy(update={"meta": meta or None})


async def _agreed(
    tool: CallableTool, arguments: Mapping[str, Any], confirm: Confirm | None
) -> None:
    given = one_line(json.dumps(arguments, ensure_ascii=False), _QUESTION_CHARACTERS)
    answer = await confirm(f"Call {tool.entry.id} with {given}?") if confirm else None
    if answer is None:
        reason = (
            "its calls must be confirmed (PYTOOLS_CONFIRM), and this client cannot ask its user; "
            "use a client that supports elicitation"
        )
        raise ToolRefusedError(str(tool.entry.id), reason)
    if not answer:
        raise ToolRefusedError(str(tool.entry.id), "the user did not agree")


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
