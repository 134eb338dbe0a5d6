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
Second opinions: `LLMReranker`, `CrossEncoderReranker`, `LLMQueryRewriter` (extra `rerank`), and the
`Reranker` and `QueryRewriter` protocols.
"""

from toolrank._bm25 import BM25Retriever
from toolrank._fusion import Fusion, linear_fusion, reciprocal_rank_fusion
from toolrank._numpy_vector import NumpyVectorRetriever, VectorMatrix
from toolrank._query import MAX_TERMS, STOP_WORDS, match_expression, query_terms
from toolrank._ranker import Channel, HybridRanker
from toolrank._records import Contribution, Filter, Hit, Query, RankedHit
from toolrank._rerank import (
    Candidate,
    CrossEncoderReranker,
    LLMReranker,
    RerankOutcome,
    RerankWhen,
)
from toolrank._rewrite import MAX_REWRITES, LLMQueryRewriter, RewriteOutcome
from toolrank._sql import Content
from toolrank._vector import MAX_NEIGHBOURS, VectorRetriever
from toolrank.errors import RankingArgumentError, RetrievalError, ToolRankError
from toolrank.protocols import Connection, QueryRewriter, Reranker, Retriever

__all__ = [
    "MAX_NEIGHBOURS",
    "MAX_REWRITES",
    "MAX_TERMS",
    "STOP_WORDS",
    "BM25Retriever",
    "Candidate",
    "Channel",
    "Connection",
    "Content",
    "Contribution",
    "CrossEncoderReranker",
    "Filter",
    "Fusion",
    "Hit",
    "HybridRanker",
    "LLMQueryRewriter",
    "LLMReranker",
    "NumpyVectorRetriever",
    "Query",
    "QueryRewriter",
    "RankedHit",
    "RankingArgumentError",
    "RerankOutcome",
    "RerankWhen",
    "Reranker",
    "RetrievalError",
    "Retriever",
    "RewriteOutcome",
    "ToolRankError",
    "VectorMatrix",
    "VectorRetriever",
    "linear_fusion",
    "match_expression",
    "query_terms",
    "reciprocal_rank_fusion",
]
