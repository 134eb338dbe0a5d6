"""A client during a call of another server's tool: questions to its user, and log messages."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

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
    ErrorData,
    InputRequiredResult,
    ListRootsResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp.types.version import is_version_at_least
from toolimport.runtime import ClientHandlers, ToolRunner

from pytools_hybrid.serve.calls import PROTOCOL, CallContext
from pytools_hybrid.serve.mcp import LEVELS, LogLevels
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.mcpserver import Context
    from mcp.types import (
        CallToolResult,
        InputRequest,
        InputResponse,
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


class ClientQuestions:
    """Asks a client in the way that its protocol version provides.

    Args:
        context: The client's call.
        session: The id of the client's session; None without sessions.
        levels: The clients' minimum log levels.

    Attributes:
        context: The client's call, or later the call that repeats it.
    """

    def __init__(self, context: Context[None, Any], session: str | None, levels: LogLevels) -> None:
        self._log_level: LoggingLevel | None = levels.lowest(context)
        version = context.protocol_version
        self.context = context
        # Without a session, the next call may come from another client.
        self._client = session or object()
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
    def can_suspend(self) -> bool:
        """Whether the client can be asked by answering its call with questions."""
        return self._by_answer and bool(self._abilities)

    def call_context(self, search_of: Callable[[str], str | None] | None) -> CallContext:
        """Return the client's side of the call."""
        sent = self.context.request_context.meta or {}
        meta = {
            key: value
            for key, value in sent.items()
            if key not in _PROGRESS_TOKENS and not key.startswith(PROTOCOL)
        }
        handlers = ClientHandlers(
            answer=self.ask,
            capabilities=self._abilities,
            client=self._client,
            on_log=self.log,
            log_level=self._log_level,
        )
        return CallContext(
            meta=meta or None,
            on_progress=self._report,
            confirm=self.confirm,
            client=handlers,
            search_of=search_of,
        )

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        await self.context.report_progress(progress, total, message)

    async def log(self, message: LoggingMessageNotificationParams) -> None:
        """Pass a log message of the tool's server on to the client."""
        lowest = self._log_level
        if lowest is None or LEVELS.index(message.level) < LEVELS.index(lowest):
            return
        data = message.data
        data = readable(data) if isinstance(data, str) else "" if data is None else data
        params = message.model_copy(update={"data": data})
        await self.context.session.send_notification(
            LoggingMessageNotification(params=params), self.context.request_id
        )

    async def confirm(self, question: str) -> bool | None:
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

    def resume(self, context: Context[None, Any]) -> None:
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
        self._suspended: dict[
            str, tuple[ClientQuestions, asyncio.Task[CallToolResult], asyncio.Handle]
        ] = {}

    async def answer(
        self,
        context: Context[None, Any],
        session: str | None,
        call: Callable[[ClientQuestions], Awaitable[CallToolResult]],
    ) -> CallToolResult | InputRequiredResult:
        """Make a call, or continue the one that this call repeats.

        Returns:
            The answer, or questions: the client answers them and repeats the call.

        Raises:
            ToolError: The call that this one repeats has ended.
        """
        if context.request_state is not None:
            if context.request_state not in self._suspended:
                raise ToolError(_OVER)
            asker, task, ending = self._suspended.pop(context.request_state)
            ending.cancel()
            asker.resume(context)
        else:
            asker = ClientQuestions(context, session, self._levels)
            if not asker.can_suspend:
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
        self._suspended[state] = asker, task, ending
        return InputRequiredResult(input_requests=asking.result(), request_state=state)

    def _give_up(self, state: str) -> None:
        _, task, _ = self._suspended.pop(state)
        task.cancel()


def _answer_to(request: InputRequest) -> type[Any]:
    if isinstance(request, ElicitRequest):
        return ElicitResult
    if not isinstance(request, CreateMessageRequest):
        return ListRootsResult
    has_tools = request.params.tools is not None or request.params.tool_choice is not None
    return CreateMessageResultWithTools if has_tools else CreateMessageResult
