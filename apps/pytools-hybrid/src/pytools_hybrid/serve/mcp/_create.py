"""Creating a server with the tools of its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.serve.mcp._log_levels import LogLevels
from pytools_hybrid.serve.mcp._server import ToolServer

if TYPE_CHECKING:
    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.mcp._offered import Offered
    from pytools_hybrid.serve.prompts import WorkflowMode
    from pytools_hybrid.settings import RootsLike, Settings

_MODES: dict[str, WorkflowMode] = {"basic": "basic", "call": "call"}


def create_server(
    search: ToolSearch | None, follower: Follower | None, *, settings: Settings, root: RootsLike
) -> ToolServer:
    """Create the MCP server for the profile in the settings.

    The profile `basic` needs neither `search` nor `follower`.
    """
    tools: list[Offered] = []
    levels = LogLevels() if settings.tools == "call" else None
    if settings.tools != "basic":
        if search is None or follower is None:
            raise ValueError(f"the profile {settings.tools} needs an open search and its follower")
        tools += _over_the_index(search, follower, settings, levels)
    if settings.tools in {"basic", "all"}:
        tools += _over_the_files(settings, root)
    return ToolServer(
        tools,
        mode=_MODES.get(settings.tools, "hybrid"),
        log_level=settings.log_level,
        log_levels=levels,
    )


# A profile only imports what it needs, because a client waits for the server to start.


def _over_the_index(
    search: ToolSearch, follower: Follower, settings: Settings, levels: LogLevels | None
) -> list[Offered]:
    from pytools_hybrid.serve.mcp._categories import Inventory
    from pytools_hybrid.serve.mcp._describe_tool import describe_tool
    from pytools_hybrid.serve.mcp._recent import RecentSearches
    from pytools_hybrid.serve.mcp._report_outcome import report_outcome
    from pytools_hybrid.serve.mcp._search_tools import search_tools

    inventory, recent = Inventory(search, follower), RecentSearches()
    caller = None
    if levels is not None:
        from pytools_hybrid.serve.calls import ToolCaller

        caller = ToolCaller(search)
    tools: list[Offered] = [
        search_tools(search, follower, inventory, recent, caller),
        describe_tool(search, follower, caller),
        report_outcome(search, follower, recent),
    ]
    if caller is not None and levels is not None:
        from pytools_hybrid.serve.mcp._call_tool import Calls, call_tool, pinned_tools

        calls = Calls(caller, follower, recent, levels)
        tools.insert(2, call_tool(calls, inventory, read_only=settings.read_only))
        tools += pinned_tools(settings.pin, [tool.name for tool in tools], calls)
    return tools


def _over_the_files(settings: Settings, root: RootsLike) -> list[Offered]:
    from pytools_hybrid.serve.browse import ToolBrowser
    from pytools_hybrid.serve.mcp._browse import list_categories, list_tools
    from pytools_hybrid.settings import Roots

    root = Roots.of(root, settings.resolved_layouts)
    browser = ToolBrowser(root, settings.policy, outside_links=settings.outside_links)
    return [list_categories(browser), list_tools(browser)]
