"""The connection to a server: its calls, and what the server sends during them.

It is opened when needed, and reopened after it breaks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    CreateMessageRequest,
    ElicitRequest,
    ErrorData,
    ListRootsRequest,
    LoggingMessageNotificationParams,
    SamplingCapability,
    SamplingToolsCapability,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolimport._connect._client import Diagnostics, connected, is_closed
from toolimport._connect._messages import (
    Answer,
    Repairs,
    json_of,
    read_result,
    with_note,
    without_secrets,
)
from toolimport._errors import ServerError, innermost
from toolimport.clients._secrets import Redactor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping
    from contextvars import Context

    from mcp.client.client import Client
    from mcp.client.session import ClientRequestContext
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import (
        CallToolResult,
        CreateMessageRequestParams,
        ElicitRequestParams,
        InputRequest,
        InputResponse,
        LoggingLevel,
        RequestParamsMeta,
    )

    from toolimport.clients._servers import Parameters
    from toolimport.runtime._runner import ClientHandlers

_CONNECT_SECONDS = 60.0
_CLOSE_SECONDS = 8.0
_LIST_SECONDS = 10.0
_MOST_PAGES = 100
# People need longer for an answer than a server for a call.
_PATIENCE = 5
_NOBODY = "no call is in progress that this question could belong to"
_OVER = "the call that this question belongs to has ended"
_SEVERAL = (
    "several clients may have unfinished calls on this connection, and it is unclear which one to "
    "ask"
)
_LEVELS: dict[LoggingLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
_LOGGED_CHARACTERS = 2000
# How long a call that has ended waits for its caller to take the last report.
_LAST_SECONDS = 10.0
_log = logging.getLogger("toolimport.servers")


@dataclass(eq=False, kw_only=True)
class Call:
    """A call of a tool, and what happens during it.

    Attributes:
        seconds: The time limit, without the client's time for answers.
        on_log: Called with each log message, in the connection's loop.
        client: Answers the server's requests; None if nobody does.
        sent: Whether its request was sent, after which it must not be sent again.
        asked: The requests that the client is answering.
    """

    tool: str
    arguments: dict[str, Any]
    seconds: float
    meta: Mapping[str, Any] | None = None
    on_progress: ProgressFnT | None = None
    on_log: Callable[[LoggingMessageNotificationParams], None] | None = None
    client: ClientHandlers | None = None
    sent: bool = False
    is_over: bool = False
    asked: set[asyncio.Task[InputResponse | ErrorData]] = field(default_factory=set[Any])
    _limit: asyncio.Timeout | None = None
    _left: float = 0.0

    @asynccontextmanager
    async def limited(self, until: float) -> AsyncGenerator[None]:
        """Limit the time of the call, within the block."""
        self.sent = self.is_over = False
        _CALL.set(self)
        try:
            async with asyncio.timeout_at(until) as self._limit:
                yield
        finally:
            self.is_over = True
            for task in self.asked:
                task.cancel()

    async def ask(
        self, client: ClientHandlers, request: InputRequest
    ) -> InputResponse | ErrorData | None:
        """Ask the client, while the call's clock is stopped; return None if the call is over."""
        if (limit := self._limit) is None:
            return None
        now, seconds = asyncio.get_running_loop().time, _PATIENCE * self.seconds
        if not self.asked:
            self._left = (limit.when() or now()) - now()
            limit.reschedule(None)
        task = asyncio.ensure_future(client.answer(request))
        self.asked.add(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
        finally:
            task.cancel()
            self.asked.discard(task)
            if not self.asked and not self.is_over:
                limit.reschedule(now() + self._left)
        if not done:
            return _error(f"the client did not answer within {seconds:g} s")
        if task.cancelled():
            return None if self.is_over else _error("the client can no longer be asked")
        if (problem := task.exception()) is not None:
            return _error(f"the client could not be asked: {problem}")
        return task.result()


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


def note_sent() -> None:
    """Note that the request of the current call is being sent."""
    if (call := _CALL.get()) is not None:
        call.sent = True


class ServerRequests:
    """Finds out which call a server's request belongs to."""

    def __init__(self, server: str, capabilities: frozenset[str]) -> None:
        self._server = server
        self._capabilities = capabilities
        self._calls: list[tuple[Call, ClientHandlers]] = []
        # Clients that gave up a call on this connection. The server may still ask about that call,
        # and no other client may answer. Two are enough to make every request ambiguous.
        self._given_up: set[Hashable] = set()

    def callbacks(self) -> dict[str, Any]:
        """Return options for the library's client; must be called in the connection's own task."""
        # The first call opens the connection, so this task has that call's context.
        _CALL.set(None)
        self._given_up.clear()
        tools = SamplingToolsCapability() if "sampling.tools" in self._capabilities else None
        options: dict[str, dict[str, Any]] = {
            "elicitation": {"elicitation_callback": self._elicit},
            "sampling": {
                "sampling_callback": self._sample,
                "sampling_capabilities": SamplingCapability(tools=tools),
            },
            "roots": {"list_roots_callback": self._list_roots},
        }
        return {
            name: option
            for capability, named in options.items()
            if capability in self._capabilities
            for name, option in named.items()
        }

    @asynccontextmanager
    async def answering(self, call: Call) -> AsyncGenerator[None]:
        """Let the server ask the client of a call within the block."""
        if (client := call.client) is None:
            yield
            return
        self._calls.append((call, client))
        try:
            yield
        except asyncio.CancelledError:
            if len(self._given_up) < 2:
                self._given_up.add(client.client)
            raise
        finally:
            self._calls.remove((call, client))

    def log(self, message: LoggingMessageNotificationParams, context: Context | None) -> None:
        """Pass a log message on to its call, or to a logger if no call is in progress.

        A message that could belong to several clients is dropped.
        """
        named = None if context is None else context.get(_CALL)
        if named is None or named.client is None:
            is_clear = len(self._clients()) == 1 and self._calls
            named = self._calls[-1][0] if is_clear else None
        if named is not None:
            if not named.is_over and named.on_log is not None:
                named.on_log(message)
        elif not self._calls:
            text = message.data if isinstance(message.data, str) else json.dumps(message.data)
            shown = " ".join(text.split())[:_LOGGED_CHARACTERS]
            _log.log(_LEVELS[message.level], "%s: %s", self._server, shown)

    def _clients(self) -> set[Hashable]:
        return {client.client for _, client in self._calls} | self._given_up

    async def _elicit(self, _: ClientRequestContext, params: ElicitRequestParams) -> Any:  # noqa: ANN401

        return await self._answered(ElicitRequest(params=params))

    async def _sample(self, _: ClientRequestContext, params: CreateMessageRequestParams) -> Any:  # noqa: ANN401

        return await self._answered(CreateMessageRequest(params=params))

    async def _list_roots(self, _: ClientRequestContext) -> Any:  # noqa: ANN401

        return await self._answered(ListRootsRequest())

    async def _answered(self, request: InputRequest) -> InputResponse | ErrorData:
        # Over HTTP, and in newer protocols, a request comes in the context of its call.
        if (named := _CALL.get()) is not None and named.client is not None:
            answer = None if named.is_over else await named.ask(named.client, request)
            return _error(_OVER) if answer is None else answer
        clients = self._clients()
        if len(clients) > 1:
            return _error(_SEVERAL)
        # If that call ends, another call of the same client is asked.
        while calls := [it for it in self._calls if it[1].client in clients]:
            call, client = min(calls, key=lambda it: len(it[0].asked))
            if (answer := await call.ask(client, request)) is not None:
                return answer
        return _error(_NOBODY)


def log_message(
    params: dict[str, Any], server: str, redactor: Redactor
) -> LoggingMessageNotificationParams:
    """Read a log message that may be invalid, and redact its secrets; `logger` names the server."""
    level, logger, data = params.get("level"), params.get("logger"), params.get("data")
    if isinstance(data, str):
        data = redactor.text(data)
    elif data is not None:
        # Secrets may be anywhere in it.
        text = json.dumps(data)
        data = data if text == redactor.text(text) else redactor.text(text)
    name = f"{server}: {redactor.text(logger)}" if isinstance(logger, str) and logger else server
    return LoggingMessageNotificationParams(
        level=level if level in _LEVELS else "info", data=data, logger=name
    )


def _error(message: str) -> ErrorData:

    return ErrorData(code=INVALID_REQUEST, message=message)


class Relay:
    """Passes reports from the connections' thread to this loop during the block.

    Of more than `most` that wait, the last are passed on, so that a flood slows nothing down.
    """

    def __init__(self, receive: Callable[..., Awaitable[None]], most: int) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Any, ...]] = deque(maxlen=most)
        self._is_woken = self._is_left = False
        self._task: asyncio.Task[None] | None = None

    def put(self, *report: Any) -> None:  # noqa: ANN401 - of any kind
        """Accept a report, in the connections' thread."""
        self._waiting.append(report)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._wake)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Accept a report of progress, as the library passes it on."""
        self.put(progress, total, message)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, exc: BaseException | None, _traceback: object) -> None:
        self._is_left = True
        if self._task is not None:
            # Cancelling at once could lose the last report while it is being passed on.
            try:
                await asyncio.wait({self._task}, timeout=_LAST_SECONDS if exc is None else 0)
            finally:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if exc is None:
            await self._pass_on()

    def _wake(self) -> None:
        # Cleared before the report is taken, so that no later one is missed.
        self._is_woken = False
        # Most calls report nothing, and need no task.
        if not self._is_left and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        while self._waiting:
            await self._receive(*self._waiting.popleft())


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
