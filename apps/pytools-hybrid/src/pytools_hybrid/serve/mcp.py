"""The MCP server: a set of tools for agents, over stdio and streamable HTTP.

The setting `tools` selects the profile: `search` (search_tools, describe_tool, report_outcome),
`call` (with call_tool), `basic` (list_categories, list_tools), or `all`. The tools are in
`pytools_hybrid.serve.tools`, which is imported after `initialize` was answered.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakKeyDictionary

from mcp.server.connection import allowed_log_levels
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, EmptyResult, LoggingLevel, SetLevelRequestParams
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from pytools_hybrid.serve.prompts import WorkflowMode, workflow
from pytools_hybrid.serve.stdio import stdio_streams
from pytools_hybrid.telemetry import requested_through
from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp.server.connection import Connection
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, GetPromptResult, InputRequiredResult, Tool

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import RootsLike, Settings

__all__ = ["ToolServer", "create_server"]

LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The levels of log messages, the lowest first."""

_PROMPT = "tool_discovery_workflow"
_MODES: dict[str, WorkflowMode] = {"basic": "basic", "call": "call"}
_ERROR_CHARACTERS = 2000
_SHOWN_CHARACTERS = 60


class ClientCall:
    """A client's call; calling it reports progress, if the client asked for that."""

    def __init__(self, context: Context[None, Any] | None) -> None:
        self.context = context

    async def __call__(self, done: float, doing: str | None, total: float | None = None) -> None:
        """Report an increasing number, and the current step."""
        if self.context is not None:
            await self.context.report_progress(done, total, message=doing)

    @property
    def session(self) -> str | None:
        """The id of the client's session; None without sessions (HTTP with newer protocols).

        Over stdio, a process has one client.
        """
        if self.context is None:
            return None
        headers = self.context.headers
        if headers is None:
            return "stdio"
        # Only older protocols have sessions; the SDK has checked their ids.
        is_modern = self.context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return None if is_modern else headers.get("mcp-session-id")


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
        first: LoggingLevel | None = next((level for level in LEVELS if level in allowed), None)
        return None if first is None else self._set.get(_connection(context.session), first)


def _connection(session: Any) -> Connection:  # noqa: ANN401 - see below
    # Nothing public distinguishes connections.
    connection: Connection = session._connection
    return connection


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool that the server offers.

    Attributes:
        name: The name for agents.
        listed: Returns its current definition; None if it is not listed now.
        call: Answers a call with some arguments.
    """

    name: str
    listed: Callable[[], Awaitable[Tool | None]]
    call: Callable[[Mapping[str, Any], ClientCall], Awaitable[CallToolResult | InputRequiredResult]]


class ToolServer(MCPServer[None]):
    """An MCP server, whose tools may follow after its start.

    Attributes:
        greeted: Set at the first request after `initialize`.
        levels: The clients' minimum log levels; None if they cannot set any.
    """

    def __init__(self, settings: Settings) -> None:
        mode = _MODES.get(settings.tools, "hybrid")
        super().__init__(
            "pytools",
            title="Python tool search",
            instructions=workflow(mode),
            version=version("pytools-hybrid"),
            log_level=settings.log_level,
            subscriptions=False,
            middleware=[self._note_greeting],
        )
        self.greeted: asyncio.Event = asyncio.Event()
        self.levels: LogLevels | None = LogLevels() if settings.tools == "call" else None
        self._tools: dict[str, ServerTool] = {}
        self._has_tools = asyncio.Event()
        if self.levels is not None:
            self._lowlevel_server.add_request_handler(
                "logging/setLevel", SetLevelRequestParams, self.levels.set
            )

        @self.prompt(_PROMPT, title="Tool discovery", description="How to find and use tools")
        def tool_discovery_workflow() -> str:
            return workflow(mode)

    def offer(self, tools: Iterable[ServerTool]) -> None:
        """Set the tools, for which calls wait until then."""
        self._tools = {tool.name: tool for tool in tools}
        self._has_tools.set()

    async def run_stdio_async(self) -> None:
        """Serve over stdin and stdout until the client disconnects."""
        server = self._lowlevel_server
        async with stdio_streams() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def _note_greeting(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.method != "initialize":
            self.greeted.set()
        return await call_next(ctx)

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[None, Any] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        """Return a prompt."""
        if name != _PROMPT:
            message = f"There is no prompt {quoted(name)}; there is {_PROMPT}."
            raise MCPError(code=INVALID_PARAMS, message=message)
        # The prompt has no arguments; any that a client sends are ignored.
        return await super().get_prompt(name, None, context)

    async def list_tools(self) -> list[Tool]:
        """List the tools with their current descriptions."""
        await self._has_tools.wait()
        listed = [await tool.listed() for tool in self._tools.values()]
        return [tool for tool in listed if tool is not None]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Answer a call.

        Raises:
            ToolError: The call failed; the message says what to do.
            UnexpectedToolError: This server has a bug.
        """
        await self._has_tools.wait()
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"Unknown tool {quoted(name)}. Available: {', '.join(self._tools)}.")
        try:
            with requested_through("mcp"):
                return await tool.call(arguments, ClientCall(context))
        except ToolError:
            raise
        except Exception as error:
            from pytools_hybrid.serve.tools import OUR_ERRORS

            if isinstance(error, OUR_ERRORS):
                # The error may contain file names, which are untrusted.
                raise ToolError(one_line(str(error), _ERROR_CHARACTERS)) from error
            raise UnexpectedToolError(f"{name} failed; the server's log says why.") from error


def create_server(
    search: ToolSearch | None, follower: Follower | None, *, settings: Settings, root: RootsLike
) -> ToolServer:
    """Create the MCP server for the profile in the settings.

    The profile `basic` needs neither `search` nor `follower`.
    """
    from pytools_hybrid.serve.tools import tools_of

    server = ToolServer(settings)
    server.offer(tools_of(search, follower, settings, root, server.levels))
    return server


def quoted(value: object) -> str:
    """Quote a caller's text on one printable line, and cut it if it is long."""
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
