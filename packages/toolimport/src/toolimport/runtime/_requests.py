"""What a server sends during a call: requests to the client, log messages and progress."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequest,
    ElicitRequest,
    ErrorData,
    ListRootsRequest,
    LoggingMessageNotificationParams,
    SamplingCapability,
    SamplingToolsCapability,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping
    from contextvars import Context
    from types import TracebackType

    from mcp.client.session import ClientRequestContext
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import (
        CreateMessageRequestParams,
        ElicitRequestParams,
        InputRequest,
        InputResponse,
        LoggingLevel,
    )

    from toolimport.clients._secrets import Redactor
    from toolimport.runtime._runner import ClientHandlers

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

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
