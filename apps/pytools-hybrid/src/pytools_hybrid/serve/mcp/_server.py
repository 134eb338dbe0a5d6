"""The server: the tools of its profile, how they are listed and called, and errors."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, SetLevelRequestParams
from toolembed import EmbeddingError
from toolimport import ToolImportError
from toolindex import ToolIndexError
from toolrank import ToolRankError

from pytools_hybrid.errors import PytoolsError
from pytools_hybrid.serve.browse import ToolBrowser
from pytools_hybrid.serve.mcp._asking import InputRequired, LogLevels, Progress
from pytools_hybrid.serve.mcp._stdio import stdio_streams
from pytools_hybrid.serve.mcp._tools import (
    CategorySummary,
    RecentSearches,
    ServerTool,
    browsing_tools,
    describe_tool,
    quoted,
    report_outcome,
    search_tools,
)
from pytools_hybrid.serve.operations import Service
from pytools_hybrid.serve.prompts import WorkflowMode, workflow
from pytools_hybrid.settings import Roots
from pytools_hybrid.telemetry import requested_through
from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, GetPromptResult, InputRequiredResult, Tool

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import RootsLike, Settings

_PROMPT = "tool_discovery_workflow"
_ERROR_CHARACTERS = 2000
_MODES: dict[str, WorkflowMode] = {"basic": "basic", "call": "call"}
_TOLD = (EmbeddingError, ToolImportError, ToolIndexError, ToolRankError, PytoolsError)


class ToolServer(MCPServer[None]):
    """An MCP server of the given tools.

    Args:
        log_levels: Receives the clients' minimum log levels; if None, they cannot set any.

    Attributes:
        greeted: Set at the first request after `initialize`.
    """

    def __init__(
        self,
        tools: Sequence[ServerTool],
        *,
        mode: WorkflowMode,
        log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        log_levels: LogLevels | None = None,
    ) -> None:
        super().__init__(
            "pytools",
            title="Python tool search",
            instructions=workflow(mode),
            version=version("pytools-hybrid"),
            log_level=log_level,
            subscriptions=False,
            middleware=[self._note_greeting],
        )
        self.greeted: asyncio.Event = asyncio.Event()
        self._served = {tool.name: tool for tool in tools}
        if log_levels is not None:
            self._lowlevel_server.add_request_handler(
                "logging/setLevel", SetLevelRequestParams, log_levels.set
            )

        @self.prompt(_PROMPT, title="Tool discovery", description="How to find and use tools")
        def tool_discovery_workflow() -> str:
            return workflow(mode)

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
        listed = [await tool.listed() for tool in self._served.values()]
        return [tool for tool in listed if tool is not None]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Answer a call.

        Raises:
            ToolError: The call failed; the message says what to do.
            UnexpectedToolError: This server has a bug.
        """
        tool = self._served.get(name)
        if tool is None:
            raise ToolError(
                f"There is no tool {quoted(name)}; there are {', '.join(self._served)}."
            )

        try:
            with requested_through("mcp"):
                return await tool.call(arguments, Progress(context))
        except InputRequired as asked:
            return asked.result
        except ToolError:
            raise
        except _TOLD as error:
            # The error may contain file names, which are untrusted.
            raise ToolError(one_line(str(error), _ERROR_CHARACTERS)) from error
        except Exception as error:
            raise UnexpectedToolError(f"{name} failed; the server's log says why.") from error


def create_server(
    search: ToolSearch | None, follower: Follower | None, *, settings: Settings, root: RootsLike
) -> ToolServer:
    """Create the MCP server for the profile in the settings.

    The profile `basic` needs neither `search` nor `follower`.
    """
    tools: list[ServerTool] = []
    levels = LogLevels() if settings.tools == "call" else None
    if settings.tools != "basic":
        if search is None or follower is None:
            raise ValueError(f"the profile {settings.tools} needs an open search and its follower")
        tools += _over_the_index(search, follower, settings, levels)
    if settings.tools in {"basic", "all"}:
        roots = Roots.of(root, settings.resolved_layouts)
        browser = ToolBrowser(roots, settings.policy, outside_links=settings.outside_links)
        tools += browsing_tools(browser)
    return ToolServer(
        tools,
        mode=_MODES.get(settings.tools, "hybrid"),
        log_level=settings.log_level,
        log_levels=levels,
    )


def _over_the_index(
    search: ToolSearch, follower: Follower, settings: Settings, levels: LogLevels | None
) -> list[ServerTool]:
    caller = None
    if levels is not None:
        # A profile only imports what it needs, because a client waits for the server to start.
        from pytools_hybrid.serve.calls import ToolCaller

        caller = ToolCaller(search)
    service = Service(search, follower, caller)
    summary, recent = CategorySummary(service), RecentSearches()
    tools: list[ServerTool] = [
        search_tools(service, summary, recent),
        describe_tool(service),
        report_outcome(service, recent),
    ]
    if caller is not None and levels is not None:
        from pytools_hybrid.serve.mcp._call_tool import Calls, call_tool, pinned_tools

        calls = Calls(service, caller, recent, levels)
        tools.insert(2, call_tool(calls, summary, read_only=settings.read_only))
        tools += pinned_tools(settings.pin, [tool.name for tool in tools], calls)
    return tools
