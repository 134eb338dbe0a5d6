"""The methods that are compared: ours, and others' as their authors ship them.

Each module holds one method. `METHODS` names them; `create` imports no more than the one asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from sets import Tool

__all__ = ["METHODS", "Method", "create", "distributions"]


class Method(Protocol):
    """A way to find tools.

    Importing a method's module imports all that it needs, before anything is timed.
    """

    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        """Take the tools in, once, before the first search; most methods need no tree."""
        ...

    def search(self, query: str, k: int) -> list[str]:
        """Return the ids of the best k tools, best first; fewer where no more are found."""
        ...

    def close(self) -> None:
        """Release what it holds; most hold nothing but memory."""


# Name → module, class, arguments of its constructor, and the distributions it comes from.
_Entry = tuple[str, str, tuple[str, ...], tuple[str, ...]]

METHODS: dict[str, _Entry] = {
    "ours-bm25": ("peers.ours", "PytoolsHybrid", ("bm25", "linear"), ("pytools-hybrid",)),
    "ours-vector": ("peers.ours", "PytoolsHybrid", ("vector", "linear"), ("pytools-hybrid",)),
    "ours-rrf": ("peers.ours", "PytoolsHybrid", ("hybrid", "rrf"), ("pytools-hybrid",)),
    "ours-linear": ("peers.ours", "PytoolsHybrid", ("hybrid", "linear"), ("pytools-hybrid",)),
    "langgraph-bigtool": ("peers.bigtool", "Bigtool", (), ("langgraph-bigtool", "langgraph")),
    "bm25s": ("peers.bm25_sparse", "BM25Sparse", (), ("bm25s", "PyStemmer")),
    "fastmcp": ("peers.fastmcp_search", "FastMCPSearch", (), ("fastmcp",)),
    "fts5-porter": ("peers.fts5", "FTS5", ("porter unicode61",), ()),
    "fts5": ("peers.fts5", "FTS5", ("unicode61",), ()),
    "rank-bm25": ("peers.rank_bm25_okapi", "RankBM25", (), ("rank-bm25",)),
    "rapidfuzz": ("peers.fuzzy", "RapidFuzz", ("WRatio",), ("rapidfuzz",)),
    "rapidfuzz-words": ("peers.fuzzy", "RapidFuzz", ("token_set_ratio",), ("rapidfuzz",)),
}


def create(name: str) -> Method:
    """Make a method, importing what it needs."""
    module, class_name, arguments, _ = METHODS[name]
    method: Method = getattr(import_module(module), class_name)(*arguments)
    return method


def distributions(name: str) -> tuple[str, ...]:
    """Name the distributions that a method comes from, for their versions."""
    return METHODS[name][3]
