"""langgraph-bigtool: its own retrieval tool over a store that is filled as in its README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore
from langgraph_bigtool.tools import get_default_retrieval_tool
from sets import Tool
from toolembed import StaticEmbedder
from typing_extensions import override

from peers import Method

__all__ = ["Bigtool"]

_NAMESPACE = ("tools",)


class _OurEmbeddings(Embeddings):
    """Our offline embedder, as LangChain's interface."""

    def __init__(self) -> None:
        self._embedder = StaticEmbedder()

    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.encode_documents(texts)

    @override
    def embed_query(self, text: str) -> list[float]:
        return self._embedder.encode_queries([text])[0]


class Bigtool(Method):
    """Finds the nearest "name: description" in LangGraph's InMemoryStore, with any embedder."""

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        self._store = InMemoryStore(
            index={
                "embed": _OurEmbeddings(),
                "dims": StaticEmbedder().dimensions,
                "fields": ["description"],
            }
        )
        for tool in tools:
            self._store.put(
                _NAMESPACE, tool.id, {"description": f"{tool.name}: {tool.description}"}
            )

    @override
    def search(self, query: str, k: int) -> list[str]:
        retrieve, _ = get_default_retrieval_tool(_NAMESPACE, limit=k)
        return list(retrieve(query, store=self._store))
