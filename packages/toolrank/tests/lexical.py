"""Helpers that create a full-text table and a retriever over it in one call."""

from typing import Any

from toolrank._bm25 import BM25Retriever
from toolrank._full_text import FullTextTable
from toolrank._fuzzy import FuzzyRetriever


def bm25(
    connection: Any, *, correction_weight: float = 0.0, synonym_weight: float = 0.0, **options: Any
) -> BM25Retriever:
    """Return plain BM25 over `docs_fts`, with nothing that is not asked for."""
    return BM25Retriever(
        full_text(connection, **options),
        correction_weight=correction_weight,
        synonym_weight=synonym_weight,
    )


def fuzzy(connection: Any, **options: Any) -> FuzzyRetriever:
    return FuzzyRetriever(full_text(connection, name="fuzzy", **options))


def full_text(
    connection: Any, table: str = "docs_fts", *, damping: float = 1.0, **options: Any
) -> FullTextTable:
    return FullTextTable(connection, table, damping=damping, **options)
