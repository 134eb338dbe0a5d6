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

    from pytools_hybrid.agents.blocking import BlockingIndex, BlockingToolSearch
    from pytools_hybrid.agents.corpus import ToolCorpus, ToolDefinition
    from pytools_hybrid.agents.functions import FoundFunction, ToolFunction, load_tool, result_text
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
    # The command line must show its help without importing what the help does not need. Each of
    # these imports those before it.
    _ROOMS = (
        *("pytools_hybrid.errors", "toolindex", "toolembed", "pytools_hybrid.settings"),
        *("pytools_hybrid.index", "pytools_hybrid.search", "pytools_hybrid.agents.functions"),
        *("pytools_hybrid.agents.corpus", "pytools_hybrid.agents.blocking"),
    )

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for room in _ROOMS if name in __all__ else ():
            if (value := getattr(import_module(room), name, None)) is not None:
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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
