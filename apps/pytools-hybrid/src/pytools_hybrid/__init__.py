"""Hybrid tool search for LLM agents: the right Python tools for a request, in milliseconds.

`ToolSearch` is the product as one object::

    settings = Settings(embedding_model="wordllama")
    async with ToolSearch(settings, Path("tools")) as search:
        await search.refresh()
        await search.embed_pending()
        response = await search.search("open an issue on github")

The command `pytools-hybrid` and the MCP server (`pytools-hybrid serve`) are built on it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytools_hybrid.errors import PytoolsError, RootUnreadableError, SettingsError
    from pytools_hybrid.search import FoundTool, Scope, SearchMode, SearchResponse
    from pytools_hybrid.service import ToolSearch
    from pytools_hybrid.settings import Settings
    from pytools_hybrid.upkeep import Upkeep

__all__ = [
    "FoundTool",
    "PytoolsError",
    "RootUnreadableError",
    "Scope",
    "SearchMode",
    "SearchResponse",
    "Settings",
    "SettingsError",
    "ToolSearch",
    "Upkeep",
]

_HOMES = {
    "PytoolsError": "errors",
    "RootUnreadableError": "errors",
    "SettingsError": "errors",
    "FoundTool": "search",
    "Scope": "search",
    "SearchMode": "search",
    "SearchResponse": "search",
    "ToolSearch": "service",
    "Settings": "settings",
    "Upkeep": "upkeep",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    # The command line must show its help without importing what it does not need for that.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
