"""A client during a call: its session, progress and log messages, and questions to its user."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakKeyDictionary

from mcp.server.connection import allowed_log_levels
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    INVALID_REQUEST,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmptyResult,
    ErrorData,
    InputRequiredResult,
    ListRootsResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least
from toolimport.runtime import ClientHandlers, ToolRunner

from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.mcpserver import Context
    from mcp.types import (
        CallToolResult,
        InputRequest,
        InputResponse,
        SetLevelRequestParams,
    )

# From this version on, a server asks by answering a call with questions, and the client repeats the
# call with the answers.
_BY_ANSWER = "2026-07-28"
# A call waits for answers this many times its time limit; a question times out a little earlier.
_PATIENCE = 6
_NOTHING_TO_FILL_IN: dict[str, Any] = {"type": "object", "properties": {}}
_NO_ADDRESSES = ErrorData(code=INVALID_REQUEST, message="the client cannot open URLs")
_OVER = "The call that these answers belong to has ended; call the tool again."
_PROGRESS_TOKENS = ("progressToken", "progress_token")
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)


class InputRequired(Exception):  # noqa: N818 - no error: the protocol's answer to a call
    """The client has to answer questions, and then repeat the call."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


def session_of(context: Context[None, Any]) -> str | None:
    """Return the session id of a call; None if there are no sessions (HTTP with newer protocols).

    Over stdio, a process has one client.
    """
    headers = context.headers
    if headers is None:
        return "stdio"
    # Only older protocols have sessions; the SDK has checked their ids.
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return None if is_modern else headers.get("mcp-session-id")


class Progress:
    """Reports the progress of a call, if the client asked for it."""

    def __init__(self, context: Context[None, Any] | None) -> None:
        self.context = context

    async def __call__(self, done: float, doing: str | None, total: float | None = None) -> None:
        """Report an increasing number, and the current step."""
        if self.context is not None:
            await self.context.report_progress(done, total, message=doing)

    @property
    def session(self) -> str | None:
        """The id of the client's session; None without sessions."""
        return None if self.context is None else session_of(self.context)

    @property
    def meta(self) -> dict[str, Any]:
        """The client's `_meta`, without the keys that are only for this server."""
        from pytools_hybrid.serve.calls import PROTOCOL

        sent = (self.context and self.context.request_context.meta) or {}
        return {
            key: value
            for key, value in sent.items()
            if key not in _PROGRESS_TOKENS and not key.startswith(PROTOCOL)
        }


class LogLevels:
    """Stores the level of each client with an older protocol; newer ones send it with a call."""

    def __init__(self) -> None:
        self._set: WeakKeyDictionary[Connection, LoggingLevel] = WeakKeyDictionary()

    async def set(
        self, context: ServerRequestContext[Any, Any], params: SetLevelRequestParams
    ) -> EmptyResult:
        """Answer `logging/setLevel`."""
        self._set[_connection(context.session)] = params.level
        return EmptyResult()

    def lowest(self, context: Context[None, Any]) -> LoggingLevel | None:
        """Return a client's minimum level during a call; None for no messages."""
        request = context.request_context
        allowed = allowed_log_levels(context.protocol_version or "", request.meta)
        first: LoggingLevel | None = next((level for level in _LEVELS if level in allowed), None)
        return None if first is None else self._set.get(_connection(context.session), first)


def _connection(session: Any) -> Connection:  # noqa: ANN401 - see below
    # Nothing public distinguishes connections.
    connection: Connection = session._connection
    return connection


class ClientQuestions:
    """Asks a client in the way that its protocol version provides.

    Args:
        context: The client's call.
        levels: The clients' minimum log levels.

    Attributes:
        context: The client's call, or later the call that repeats it.
    """

    def __init__(self, context: Context[None, Any], levels: LogLevels) -> None:
        self._log_level: LoggingLevel | None = levels.lowest(context)
        version = context.protocol_version
        self.context = context
        self._by_answer = version is not None and is_version_at_least(version, _BY_ANSWER)
        self._asked: dict[str, tuple[InputRequest, asyncio.Future[InputResponse]]] = {}
        self._news = asyncio.Event()
        self._able = context.client_capabilities
        abilities = {
            "elicitation": self._able and self._able.elicitation,
            "sampling": self._able and self._able.sampling,
            "sampling.tools": self._able and self._able.sampling and self._able.sampling.tools,
            "roots": self._able and self._able.roots,
        }
        can_be_asked = self._by_answer or context.session.can_send_request
        self._abilities = frozenset(name for name, it in abilities.items() if it and can_be_asked)

    @property
    def is_held(self) -> bool:
        """Whether the client can be asked by answering its call with questions."""
        return self._by_answer and bool(self._abilities)

    def caller(self) -> ClientHandlers:
        """Return the client as a tool's server sees it."""
        return ClientHandlers(
            answer=self.ask,
            capabilities=self._abilities,
            # Without a session, the next call may come from another client.
            client=session_of(self.context) or object(),
            on_log=self.log,
            log_level=self._log_level,
        )

    async def log(self, message: LoggingMessageNotificationParams) -> None:
        """Pass a log message of the tool's server on to the client."""
        lowest = self._log_level
        if lowest is None or _LEVELS.index(message.level) < _LEVELS.index(lowest):
            return
        data = message.data
        data = readable(data) if isinstance(data, str) else "" if data is None else data
        params = message.model_copy(update={"data": data})
        await self.context.session.send_notification(
            LoggingMessageNotification(params=params), self.context.request_id
        )

    async def confirmed(self, question: str) -> bool | None:
        """Ask the user; return whether they agreed, or None if the client cannot ask."""
        able = self._able and self._able.elicitation
        if "elicitation" not in self._abilities or not able or (able.url and able.form is None):
            return None
        params = ElicitRequestFormParams(message=question, requested_schema=_NOTHING_TO_FILL_IN)
        answer = await self.ask(ElicitRequest(params=params))
        return isinstance(answer, ElicitResult) and answer.action == "accept"

    async def ask(self, request: InputRequest) -> InputResponse | ErrorData:
        """Pass a request on to the client, and return its answer."""
        able = self._able and self._able.elicitation
        is_address = isinstance(request.params, ElicitRequestURLParams)
        if is_address and not (able and able.url):
            return _NO_ADDRESSES
        if self._by_answer:
            return await self._ask_by_answer(request)
        session, related = self.context.session, self.context.request_id
        try:
            answer: InputResponse = await session.send_request(
                request, _answer_to(request), metadata=ServerMessageMetadata(related)
            )
        except MCPError as error:
            return error.error
        return answer

    async def _ask_by_answer(self, request: InputRequest) -> InputResponse:
        key = secrets.token_hex(4)
        answer: asyncio.Future[InputResponse] = asyncio.get_running_loop().create_future()
        self._asked[key] = request, answer
        self._news.set()
        try:
            return await answer
        finally:
            del self._asked[key]

    def go_on(self, context: Context[None, Any]) -> None:
        """Accept the answers in the repeated call."""
        self.context = context
        for key, response in (context.input_responses or {}).items():
            if key in self._asked and not self._asked[key][1].done():
                self._asked[key][1].set_result(response)

    async def questions(self) -> dict[str, InputRequest]:
        """Wait until there are open questions."""
        while True:
            self._news.clear()
            found = {key: it for key, (it, answer) in self._asked.items() if not answer.done()}
            if found:
                return found
            await self._news.wait()


class SuspendedCalls:
    """Calls that are in progress while their clients answer questions."""

    def __init__(self, levels: LogLevels) -> None:
        self._levels = levels
        self._held: dict[
            str, tuple[ClientQuestions, asyncio.Task[CallToolResult], asyncio.Handle]
        ] = {}

    async def answer(
        self,
        context: Context[None, Any],
        call: Callable[[ClientQuestions], Awaitable[CallToolResult]],
    ) -> CallToolResult:
        """Make a call, or continue the one that this call repeats.

        Raises:
            InputRequired: The client has to answer questions.
            ToolError: The call that this one repeats has ended.
        """
        if context.request_state is not None:
            if context.request_state not in self._held:
                raise ToolError(_OVER)
            asker, task, ending = self._held.pop(context.request_state)
            ending.cancel()
            asker.go_on(context)
        else:
            asker = ClientQuestions(context, self._levels)
            if not asker.is_held:
                return await call(asker)
            task = asyncio.ensure_future(call(asker))
        asking = asyncio.create_task(asker.questions())
        try:
            await asyncio.wait({task, asking}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            asking.cancel()
        if task.done():
            return task.result()
        state = secrets.token_hex(8)
        later = asyncio.get_running_loop().call_later
        ending = later(_PATIENCE * ToolRunner.call_seconds(), self._give_up, state)
        self._held[state] = asker, task, ending
        questions = InputRequiredResult(input_requests=asking.result(), request_state=state)
        raise InputRequired(questions)

    def _give_up(self, state: str) -> None:
        _, task, _ = self._held.pop(state)
        task.cancel()


def _answer_to(request: InputRequest) -> type[Any]:
    if isinstance(request, ElicitRequest):
        return ElicitResult
    if not isinstance(request, CreateMessageRequest):
        return ListRootsResult
    has_tools = request.params.tools is not None or request.params.tool_choice is not None
    return CreateMessageResultWithTools if has_tools else CreateMessageResult
