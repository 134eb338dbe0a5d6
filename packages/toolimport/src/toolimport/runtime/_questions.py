"""Questions and log messages of a server during a call, passed on to the caller."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
    from contextvars import Context

    from mcp.client.session import ClientRequestContext
    from mcp_types import (
        CreateMessageRequestParams,
        ElicitRequestParams,
        ErrorData,
        InputRequest,
        InputResponse,
        LoggingLevel,
    )

    from toolimport.connect import Redactor

    Answer = Callable[[InputRequest], Awaitable[InputResponse | ErrorData]]

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
_log = logging.getLogger("toolimport.servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMessage:
    """A log message of a server.

    Attributes:
        level: Its severity, as the protocol names it.
        data: Usually a text; any JSON.
        logger: The name of the server's logger, or None.
        server: The server's name.
    """

    level: LoggingLevel
    data: Any
    logger: str | None
    server: str

    @classmethod
    def read(cls, params: dict[str, Any], server: str, redactor: Redactor) -> LogMessage:
        """Read a message that may be invalid, and redact its secrets."""
        level, logger, data = params.get("level"), params.get("logger"), params.get("data")
        if isinstance(data, str):
            data = redactor.text(data)
        elif data is not None:
            # Secrets may be anywhere in it.
            text = json.dumps(data)
            data = data if text == redactor.text(text) else redactor.text(text)
        return cls(
            level=level if level in _LEVELS else "info",
            data=data,
            logger=redactor.text(logger) if isinstance(logger, str) else None,
            server=server,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that makes a call, and answers the server's questions during it.

    Attributes:
        answer: Answers a request for the user's input (elicitation), a message by the model
            (sampling), or the roots.
        abilities: The kinds of questions it can answer: "elicitation", "sampling",
            "sampling.tools", "roots". Servers learn them on connecting, so different abilities need
            different connections.
        client: Identifies the client: calls with equal values can answer each other's questions.
        on_log: Called with the server's log messages during the call; of a flood, with the last
            ones.
        log_level: The minimum level; servers with older protocols may send lower ones.
    """

    answer: Answer
    abilities: frozenset[str]
    client: Hashable
    on_log: Callable[[LogMessage], Awaitable[None]] | None = None
    log_level: LoggingLevel | None = None

    def in_this_loop(self) -> Caller:
        """Return a caller that can be asked from other loops, and answers in the current one."""
        loop = asyncio.get_running_loop()

        async def answer(request: InputRequest) -> InputResponse | ErrorData:
            job = cast("Coroutine[Any, Any, InputResponse | ErrorData]", self.answer(request))
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(job, loop))

        return replace(self, answer=answer)


@dataclass(eq=False)
class _Call:
    caller: Caller
    limit: asyncio.Timeout
    seconds: float
    on_log: Callable[[LogMessage], None] | None
    asked: set[asyncio.Task[InputResponse | ErrorData]] = field(default_factory=set[Any])
    is_over: bool = False
    _left: float = 0.0

    async def ask(self, request: InputRequest) -> InputResponse | ErrorData | None:
        """Ask the caller, while the call's clock is stopped; return None if the call is over."""
        now = asyncio.get_running_loop().time
        if not self.asked:
            self._left = (self.limit.when() or now()) - now()
            self.limit.reschedule(None)
        task = asyncio.ensure_future(self.caller.answer(request))
        self.asked.add(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=_PATIENCE * self.seconds)
        finally:
            task.cancel()
            self.asked.discard(task)
            if not self.asked and not self.is_over:
                self.limit.reschedule(now() + self._left)
        if not done:
            return _error(f"the client did not answer within {_PATIENCE * self.seconds:g} s")
        if task.cancelled():
            return None if self.is_over else _error("the client can no longer be asked")
        if (problem := task.exception()) is not None:
            return _error(f"the client could not be asked: {problem}")
        return task.result()


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


class Questions:
    """Finds out which call a server's question belongs to."""

    def __init__(self, abilities: frozenset[str]) -> None:
        self._abilities = abilities
        self._calls: list[_Call] = []
        # Clients that gave up a call on this connection. The server may still ask about that call,
        # and no other client may answer. Two are enough to make every question ambiguous.
        self._given_up: set[Hashable] = set()

    def callbacks(self) -> dict[str, Any]:
        """Return options for the library's client; must be called in the connection's own task."""
        from mcp_types import SamplingCapability, SamplingToolsCapability

        # The first call opens the connection, so this task has that call's context.
        _CALL.set(None)
        self._given_up.clear()
        tools = SamplingToolsCapability() if "sampling.tools" in self._abilities else None
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
            for ability, named in options.items()
            if ability in self._abilities
            for name, option in named.items()
        }

    @asynccontextmanager
    async def limited(
        self,
        caller: Caller | None,
        until: float,
        seconds: float,
        on_log: Callable[[LogMessage], None] | None,
    ) -> AsyncGenerator[None]:
        """Limit the time of a call, and let the server ask the caller within the block."""
        async with asyncio.timeout_at(until) as limit:
            if caller is None:
                yield
                return
            call = _Call(caller, limit, seconds, on_log)
            _CALL.set(call)
            self._calls.append(call)
            try:
                yield
            except asyncio.CancelledError:
                if len(self._given_up) < 2:
                    self._given_up.add(caller.client)
                raise
            finally:
                self._calls.remove(call)
                call.is_over = True
                for task in call.asked:
                    task.cancel()

    def log(self, message: LogMessage, context: Context | None) -> None:
        """Pass a log message on to its caller, or to a logger if no call is in progress.

        A message that could belong to several callers is dropped.
        """
        named = None if context is None else context.get(_CALL)
        if named is None and len(self._clients()) == 1 and self._calls:
            named = self._calls[-1]
        if named is not None:
            if not named.is_over and named.on_log is not None:
                named.on_log(message)
        elif not self._calls:
            text = message.data if isinstance(message.data, str) else json.dumps(message.data)
            shown = " ".join(text.split())[:_LOGGED_CHARACTERS]
            _log.log(_LEVELS[message.level], "%s: %s", message.server, shown)

    def _clients(self) -> set[Hashable]:
        return {it.caller.client for it in self._calls} | self._given_up

    async def _elicit(self, _: ClientRequestContext, params: ElicitRequestParams) -> Any:  # noqa: ANN401
        from mcp_types import ElicitRequest

        return await self._answered(ElicitRequest(params=params))

    async def _sample(self, _: ClientRequestContext, params: CreateMessageRequestParams) -> Any:  # noqa: ANN401
        from mcp_types import CreateMessageRequest

        return await self._answered(CreateMessageRequest(params=params))

    async def _list_roots(self, _: ClientRequestContext) -> Any:  # noqa: ANN401
        from mcp_types import ListRootsRequest

        return await self._answered(ListRootsRequest())

    async def _answered(self, request: InputRequest) -> InputResponse | ErrorData:
        # Over HTTP, and in newer protocols, a question comes in the context of its call.
        if (named := _CALL.get()) is not None:
            answer = None if named.is_over else await named.ask(request)
            return _error(_OVER) if answer is None else answer
        clients = self._clients()
        if len(clients) > 1:
            return _error(_SEVERAL)
        # If that call ends, another call of the same client is asked.
        while calls := [it for it in self._calls if it.caller.client in clients]:
            call = min(calls, key=lambda it: len(it.asked))
            if (answer := await call.ask(request)) is not None:
                return answer
        return _error(_NOBODY)


def _error(message: str) -> ErrorData:
    from mcp_types import INVALID_REQUEST, ErrorData

    return ErrorData(code=INVALID_REQUEST, message=message)
