"""Hybrid tool search for LLM agents: the right Python tools for a request, in milliseconds.

`ToolSearch` is the product as one object::

    async with ToolSearch("tools") as tools:
        for hit in await tools.search("open an issue on github"):
            print(hit.score, hit.id, hit.summary, hit.path)

- **Searching a tree**: `ToolSearch`, or `BlockingToolSearch` in code that is not async, returns a
  `SearchResponse`: a sequence of `FoundTool`, each with a `MatchType`. `SearchMode`, `Scope` and
  `ToolFilter` narrow the search. `RerankReport` says what reranking cost, and `RankExplanation`
  where a tool ranks that was not shown.
- **What is searched**: the trees (`RootsLike`, kept as `Roots`) and their `Index` (`BlockingIndex`
  in code that is not async); `IndexState` says what it contains. `Settings`, your own
  `Embedder` and `Follower` are for long-running programs.
- **Knowing more**: `ToolDescription` at a `DetailLevel`, `CategoryCount`; `Recording` says whether
  a reported outcome was recorded.
- **Calling what was found**: `load_tool` returns a `ToolFunction`, `result_text` turns its result
  into text for a language model.
- **Searching a program's own tools**: `ToolCorpus` searches functions (`FoundFunction`) or tool
  definitions (`ToolDefinition`); `pytools_hybrid.agents.adapters` connects it to frameworks and
  providers.
- **Errors**: `PytoolsError` is the base of all errors of this package.

The command `pytools-hybrid` and the MCP server (`pytools-hybrid serve`) are built on it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolembed import Embedder
    from toolindex import ToolFilter

    from pytools_hybrid.agents import (
        BlockingIndex,
        BlockingToolSearch,
        FoundFunction,
        ToolCorpus,
        ToolDefinition,
        ToolFunction,
        load_tool,
        result_text,
    )
    from pytools_hybrid.errors import (
        AmbiguousToolError,
        PytoolsError,
        RootUnreadableError,
        SettingsError,
        ToolArgumentsError,
        ToolLoadError,
        UnknownToolError,
    )
    from pytools_hybrid.index import Follower, Index, IndexState, Recording, open_store
    from pytools_hybrid.search import (
        CategoryCount,
        DetailLevel,
        FoundTool,
        MatchType,
        RankExplanation,
        RerankReport,
        Scope,
        SearchMode,
        SearchResponse,
        ToolDescription,
        ToolSearch,
    )
    from pytools_hybrid.settings import Roots, RootsLike, Settings
else:
    # The command line must show its help without importing what the help does not need.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [
    "AmbiguousToolError",
    "BlockingIndex",
    "BlockingToolSearch",
    "CategoryCount",
    "DetailLevel",
    "Embedder",
    "Follower",
    "FoundFunction",
    "FoundTool",
    "Index",
    "IndexState",
    "MatchType",
    "PytoolsError",
    "RankExplanation",
    "Recording",
    "RerankReport",
    "RootUnreadableError",
    "Roots",
    "RootsLike",
    "Scope",
    "SearchMode",
    "SearchResponse",
    "Settings",
    "SettingsError",
    "ToolArgumentsError",
    "ToolCorpus",
    "ToolDefinition",
    "ToolDescription",
    "ToolFilter",
    "ToolFunction",
    "ToolLoadError",
    "ToolSearch",
    "UnknownToolError",
    "load_tool",
    "open_store",
    "result_text",
]

_HOMES = {
    name: module
    for module, names in {
        "toolembed": "Embedder",
        "toolindex": "ToolFilter",
        "pytools_hybrid.agents._blocking": "BlockingIndex BlockingToolSearch",
        "pytools_hybrid.agents._calling": "load_tool result_text",
        "pytools_hybrid.agents._corpus": "ToolCorpus",
        "pytools_hybrid.agents._definitions": "ToolDefinition",
        "pytools_hybrid.agents._functions": "FoundFunction",
        "pytools_hybrid.agents._tool_function": "ToolFunction",
        "pytools_hybrid.errors": "AmbiguousToolError PytoolsError RootUnreadableError "
        "SettingsError ToolArgumentsError ToolLoadError UnknownToolError",
        "pytools_hybrid.index.index": "Index IndexState",
        "pytools_hybrid.index.follow": "Follower",
        "pytools_hybrid.index.open": "open_store",
        "pytools_hybrid.index.usage": "Recording",
        "pytools_hybrid.search.describe": "CategoryCount DetailLevel ToolDescription",
        "pytools_hybrid.search.explain": "RankExplanation",
        "pytools_hybrid.search.tool_search": "ToolSearch",
        "pytools_hybrid.search.types": "FoundTool MatchType RerankReport "
        "Scope SearchMode SearchResponse",
        "pytools_hybrid.settings._roots": "Roots RootsLike",
        "pytools_hybrid.settings._settings": "Settings",
    }.items()
    for name in names.split()
}
