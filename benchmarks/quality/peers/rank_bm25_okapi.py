"""rank_bm25's BM25Okapi over words split at spaces, as in its README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rank_bm25 import BM25Okapi
from sets import Tool
from typing_extensions import override

from peers import Method

__all__ = ["RankBM25"]


class RankBM25(Method):
    """BM25Okapi with its defaults over name and description."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        self._ids = [tool.id for tool in tools]
        self._bm25 = BM25Okapi([f"{tool.name} {tool.description}".split(" ") for tool in tools])

    @override
    def search(self, query: str, k: int) -> list[str]:
        return list(self._bm25.get_top_n(query.split(" "), self._ids, n=k))
