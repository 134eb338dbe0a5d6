"""bm25s with English stop words and the Snowball stemmer, as in its quick start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import bm25s
import Stemmer
from sets import Tool
from typing_extensions import override

from peers import Method

__all__ = ["BM25Sparse"]


class BM25Sparse(Method):
    """Its default BM25 over name and description."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._retriever = bm25s.BM25()
        self._ids: list[str] = []

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        self._ids = [tool.id for tool in tools]
        corpus = [f"{tool.name} {tool.description}" for tool in tools]
        self._retriever.index(self._tokens(corpus), show_progress=False)

    @override
    def search(self, query: str, k: int) -> list[str]:
        # It raises an error if more are requested than there are.
        found, _ = self._retriever.retrieve(
            self._tokens(query), k=min(k, len(self._ids)), show_progress=False
        )
        return [self._ids[position] for position in found[0]]

    def _tokens(self, texts: str | list[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)
