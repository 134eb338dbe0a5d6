"""Helpers that create a full-text table and a retriever over it in one call."""

from typing import Any

from toolrank import BM25Retriever, FullTextTable
from toolrank._fuzzy import FuzzyRetriever

_OF_TABLES = "table", "weights", "content"


def bm25(connection: Any, **arguments: Any) -> BM25Retriever:
    return BM25Retriever(*_over(connection, arguments), **arguments)


def fuzzy(connection: Any, **arguments: Any) -> FuzzyRetriever:
    return FuzzyRetriever(*_over(connection, arguments), **arguments)


def _over(connection: Any, arguments: dict[str, Any]) -> tuple[FullTextTable]:
    of_table = {name: arguments.pop(name) for name in _OF_TABLES if name in arguments}
    return (FullTextTable(connection, **of_table),)
