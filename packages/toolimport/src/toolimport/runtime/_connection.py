"""The connection to a server, opened when needed, and reopened after it breaks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, LOG_LEVEL_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolimport._connect._client import Diagnostics, connected, is_closed
from toolimport._connect._messages import Answer, Repairs
from toolimport._errors import ServerError, innermost
from toolimport.clients._secrets import Redactor
from toolimport.runtime._requests import Call, ServerRequests, log_message, note_sent

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from mcp.client.client import Client
    from mcp_types import CallToolResult, RequestParamsMeta

    from toolimport.clients._servers import Parameters

_CONNECT_SECONDS = 60.0
_CLOSE_SECONDS = 8.0
_LIST_SECONDS = 10.0
_MOST_PAGES = 100


@dataclass(eq=False)
class _Session:
    """An open connection, and why it ended if it did."""

    client: Client
    ending: Exception | None = None
    is_listed: bool = False


class Connection:
    """A server's connection, which lives in one event loop and is only used there.

    `find` returns the parameters each time it is opened. `capabilities` are the requests of the
    server that its clients can answer.
    """

    def __init__(
        self, name: str, find: Callable[[], Parameters], capabilities: frozenset[str] = frozenset()
    ) -> None:
        self._name = name
        self._find = find
        self._requests = ServerRequests(name, capabilities)
        self._changing = asyncio.Lock()
        self._opening: asyncio.Task[_Session] | None = None
        self._session: _Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._diagnostics = Diagnostics()
        self._redactor = Redactor(())

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        task = self._task
        return self._session is not None and task is not None and not task.done()

    async def call(self, call: Call) -> CallToolResult:
        """Call a tool; retry on a new connection if the request was certainly not sent.

        Returns the server's answer, even if it says that the tool failed; then with secrets
        redacted. If parts of it are invalid, its metadata has a note on them.
        """
        until = asyncio.get_running_loop().time() + call.seconds
        for is_last in (False, True):
            async with asyncio.timeout_at(until):
                session = await self._opened()
            try:
                async with call.limited(until), self._requests.answering(call):
                    answered = await session.client.call_tool(
                        call.tool,
                        call.arguments,
                        meta=_meta_of(call, session),
                        progress_callback=call.on_progress,
                    )
            except TimeoutError:
                raise
            except Exception as error:  # noqa: BLE001 - of any library
                diagnostics = self._diagnostics
                ending = await self._ended(session, error)
                was_sent = call.sent and not _was_refused(ending)
                if is_last or was_sent or not _is_end(error):
                    raise diagnostics.explain(ending, self._name, self._redactor) from None
            else:
                return await self._read(session, call.tool, Answer.of_call(answered.meta), until)
        raise AssertionError("unreachable")

    async def _read(
        self, session: _Session, tool: str, answer: Answer, until: float
    ) -> CallToolResult:
        """Return the usable parts of an answer, with a note on the others."""
        from toolimport._connect._results import json_of, read_result, with_note, without_secrets

        notes, repairs = list(answer.notes), self._diagnostics.repairs
        result = read_result(answer.value, notes)
        if not result.is_error and not answer.lost:
            await self._list(session, tool, until)
            is_given = "structured_content" in result.model_fields_set
            value = result.structured_content
            if problem := repairs.result_problem(tool, value, is_given=is_given):
                text = json_of(result)
                if is_given or text is None or repairs.result_problem(tool, text, is_given=True):
                    notes.append(problem)
                else:
                    result = result.model_copy(update={"structured_content": text})
        note = "" if result.is_error else "The call was carried out. "
        if answer.lost:
            note += f"Its answer cannot be used: {answer.lost}."
        elif notes:
            note += f"Parts of its answer are invalid: {'; '.join(notes)}."
        else:
            note = ""
        result = with_note(result, self._redactor.text(note))
        return without_secrets(result, self._redactor) if result.is_error else result

    async def _list(self, session: _Session, tool: str, until: float) -> None:
        """Fetch the tools' result schemas once; failures are ignored, so no answer is lost."""
        repairs = self._diagnostics.repairs
        if session.is_listed or repairs.is_listed(tool):
            return
        session.is_listed = True
        soon = asyncio.get_running_loop().time() + _LIST_SECONDS
        cursor: str | None = None
        with suppress(Exception):
            async with asyncio.timeout_at(min(until, soon)):
                for _ in range(_MOST_PAGES):
                    cursor = (await session.client.list_tools(cursor=cursor)).next_cursor
                    if cursor is None or repairs.is_listed(tool):
                        return

    async def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        async with self._changing:
            await self._close()

    async def _ended(self, session: _Session, error: Exception) -> Exception:
        """Drop a connection that has ended; return the reason, if known."""
        if not _is_end(error):
            return error
        async with self._changing:
            if self._session is session:
                await self._close()
        return session.ending or error

    async def _opened(self) -> _Session:
        if self._session is not None and self.is_open:
            return self._session
        # All waiting calls share one attempt, which continues even if one of them gives up.
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            # Its error is retrieved, in case all callers have given up.
            self._opening.add_done_callback(lambda it: it.cancelled() or it.exception())
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise
            raise ServerError(self._name, "its connection was closed in the meantime") from None

    async def _open(self) -> _Session:
        async with self._changing:
            await self._close()
            parameters = self._find()
            repairs = Repairs(is_for_calls=True, on_log=self._log, on_call=note_sent)
            self._leave, self._diagnostics = asyncio.Event(), Diagnostics(repairs)
            self._redactor = parameters.redactor
            ready: asyncio.Future[_Session] = asyncio.get_running_loop().create_future()
            # In its own task, because the task that enters a connection has to leave it.
            self._task = asyncio.create_task(self._hold(parameters, ready, self._leave))
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    self._session = await asyncio.shield(ready)
            except BaseException as error:
                await self._close()
                if isinstance(error, TimeoutError):
                    problem = f"could not be reached within {_CONNECT_SECONDS:.0f} s"
                    raise ServerError(self._name, problem) from None
                if not isinstance(error, Exception):  # it was cancelled
                    raise
                raise self._diagnostics.explain(error, self._name, self._redactor) from None
            return ready.result()

    async def _hold(
        self, parameters: Parameters, ready: asyncio.Future[_Session], leave: asyncio.Event
    ) -> None:
        session: _Session | None = None
        try:
            callbacks = self._requests.callbacks()
            async with connected(parameters, self._diagnostics, **callbacks) as client:
                session = _Session(client)
                if not ready.done():
                    ready.set_result(session)
                await leave.wait()
        except Exception as error:  # noqa: BLE001 - of any library; the caller gets it
            if not ready.done():
                ready.set_exception(error)
            elif session is not None:
                session.ending = error
        finally:
            ready.cancel()

    def _log(self, params: dict[str, Any], context: Context | None) -> None:
        self._requests.log(log_message(params, self._name, self._redactor), context)

    async def _close(self) -> None:
        task, session = self._task, self._session
        self._task = self._session = None
        if task is None:
            return
        self._leave.set()
        if session is not None:  # a connection being opened does not check whether to leave
            # A caller that is cancelled does not wait for the connection to close.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await asyncio.shield(asyncio.gather(task, return_exceptions=True))
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _is_end(error: Exception) -> bool:
    """Return whether the connection has ended."""
    if isinstance(error, MCPError):
        return is_closed(error) or _was_refused(error)
    return not isinstance(error, ValueError | RuntimeError)


def _was_refused(error: BaseException) -> bool:
    """Return whether the request cannot have been accepted: no server, or no such session."""
    if isinstance(error, MCPError):
        return error.code == INVALID_REQUEST and error.message == "Session terminated"

    return isinstance(innermost(error), httpx2.ConnectError)


def _meta_of(call: Call, session: _Session) -> RequestParamsMeta | None:
    """Return a call's metadata; in newer protocols, it asks for log messages of a level."""
    meta, level = call.meta, call.client and call.client.log_level
    if level and session.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        meta = {**(meta or {}), LOG_LEVEL_META_KEY: level}
    return None if meta is None else cast("RequestParamsMeta", dict(meta))
