"""Rank rows of a SQLite database for a natural-language query.

The package knows nothing of what the rows are. Point a retriever at a table, give the
retrievers to a ranker, and ask::

    ranker = HybridRanker(
        [
            Channel(BM25Retriever(connection, table="docs_fts", weights=(3.0, 1.0))),
            Channel(VectorRetriever(connection, table="docs_vec", column="embedding")),
        ]
    )
    hits = ranker.rank(Query(text="merge two pdf files", vector=query_vector), limit=5)

Retrieval: `BM25Retriever`, `VectorRetriever`, `NumpyVectorRetriever`, and the `Retriever` protocol
for anything else.
Fusion: `reciprocal_rank_fusion`, `linear_fusion`.
Query analysis: `query_terms`, `match_expression`.
"""

from toolrank._bm25 import BM25Retriever
from toolrank._fusion import Fusion, linear_fusion, reciprocal_rank_fusion
from toolrank._numpy_vector import NumpyVectorRetriever, VectorMatrix
from toolrank._query import MAX_TERMS, STOP_WORDS, match_expression, query_terms
from toolrank._ranker import Channel, HybridRanker
from toolrank._records import Contribution, Filter, Hit, Query, RankedHit
from toolrank._sql import Content
from toolrank._vector import MAX_NEIGHBOURS, VectorRetriever
from toolrank.errors import RankingArgumentError, RetrievalError, ToolRankError
from toolrank.protocols import Connection, Retriever

__all__ = [
    "MAX_NEIGHBOURS",
    "MAX_TERMS",
    "STOP_WORDS",
    "BM25Retriever",
    "Channel",
    "Connection",
    "Content",
    "Contribution",
    "Filter",
    "Fusion",
    "Hit",
    "HybridRanker",
    "NumpyVectorRetriever",
    "Query",
    "RankedHit",
    "RankingArgumentError",
    "RetrievalError",
    "Retriever",
    "ToolRankError",
    "VectorMatrix",
    "VectorRetriever",
    "linear_fusion",
    "match_expression",
    "query_terms",
    "reciprocal_rank_fusion",
]
