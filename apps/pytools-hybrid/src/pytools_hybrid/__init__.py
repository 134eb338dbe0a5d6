"""Hybrid tool search for LLM agents: the right Python tools for a request, in milliseconds.

`ToolSearch` is the product as one object::

    settings = Settings(embedding_model="wordllama")
    async with ToolSearch(Path("tools"), settings) as search:
        await search.refresh()
        await search.embed_pending()
        response = await search.search("open an issue on github")

The command `pytools-hybrid` and the MCP server (`pytools-hybrid serve`) are built on it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolindex import ToolFilter

    from pytools_hybrid.catalogue import CategoryCount
    from pytools_hybrid.description import DetailLevel, ToolDescription
    from pytools_hybrid.errors import (
        AmbiguousToolError,
        PytoolsError,
        RootUnreadableError,
        SettingsError,
        UnknownToolError,
    )
    from pytools_hybrid.search import FoundTool, Scope, SearchMode, SearchResponse
    from pytools_hybrid.service import ToolSearch
    from pytools_hybrid.settings import Settings
    from pytools_hybrid.upkeep import Upkeep

__all__ = [
    "AmbiguousToolError",
    "CategoryCount",
    "DetailLevel",
    "FoundTool",
    "PytoolsError",
    "RootUnreadableError",
    "Scope",
    "SearchMode",
    "SearchResponse",
    "Settings",
    "SettingsError",
    "ToolDescription",
    "ToolFilter",
    "ToolSearch",
    "UnknownToolError",
    "Upkeep",
]

_HOMES = {
    "ToolFilter": "toolindex",
    "CategoryCount": "pytools_hybrid.catalogue",
    "DetailLevel": "pytools_hybrid.description",
    "ToolDescription": "pytools_hybrid.description",
    "AmbiguousToolError": "pytools_hybrid.errors",
    "UnknownToolError": "pytools_hybrid.errors",
    "PytoolsError": "pytools_hybrid.errors",
    "RootUnreadableError": "pytools_hybrid.errors",
    "SettingsError": "pytools_hybrid.errors",
    "FoundTool": "pytools_hybrid.search",
    "Scope": "pytools_hybrid.search",
    "SearchMode": "pytools_hybrid.search",
    "SearchResponse": "pytools_hybrid.search",
    "ToolSearch": "pytools_hybrid.service",
    "Settings": "pytools_hybrid.settings",
    "Upkeep": "pytools_hybrid.upkeep",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    # The command line must show its help without importing what it does not need for that.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
