"""The compared methods: ours, and others as their authors ship them.

Each module has one method. `METHODS` names them; `create` imports only the requested one.
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

    Importing a method's module imports everything that it needs, so that this is not timed.
    """

    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        """Index the tools, once, before the first search; most methods do not need the tree."""
        ...

    def search(self, query: str, k: int) -> list[str]:
        """Return the ids of at most k tools, best first."""
        ...

    def close(self) -> None:
        """Release resources; most methods use only memory."""


# The module, the class, the arguments of its constructor, and the distributions of a method.
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
    """Create a method, importing what it needs."""
    module, class_name, arguments, _ = METHODS[name]
    method: Method = getattr(import_module(module), class_name)(*arguments)
    return method


def distributions(name: str) -> tuple[str, ...]:
    """Return the names of a method's distributions."""
    return METHODS[name][3]
