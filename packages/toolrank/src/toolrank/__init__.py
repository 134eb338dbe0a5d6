"""Rank rows of a SQLite database for a natural-language query.

The package does not care what the rows are. Point `HybridSearch` at tables, and search::

    tables = Tables(connection, "docs_fts", weights=(3, 1), vectors="docs_vec")
    for result in HybridSearch(tables, embed=model.encode_queries).search("merge two pdf files"):
        print(result.id, result.score, result.confidence)

`HybridSearch` returns `SearchResult`s. It is made of the parts below, which can be used alone.

Retrieval: `BM25Retriever` and `FuzzyRetriever` over a `FullTextTable` or another `Lexicon` (with
`Postings`, each a `Posting`), `NameRetriever`, `VectorRetriever`, `MatrixRetriever`, and the
`Retriever` protocol for anything else.
Fusion: `reciprocal_rank_fusion`, `linear_fusion`, which return `FusedScores`.
Besides the channels: parts of a request (`Query.parts`), groups, pinned hits, past use
(`usage_prior`), and the verbs of request and name (`verb_prior`), all of them steps of
`HybridRanker` that each hit's `Explanation` shows.
Whether a hit answers at all: `confidence` of its `Evidence`.
Retrievers of your own: `toolrank.testing.check_retriever`.
Query analysis: `query_terms`, `split_request`, `match_expression`.
Second opinions: `LLMReranker` (extra `rerank`), and the `Reranker` protocol.
"""

from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError, RetrievalError, ToolRankError
from toolrank.protocols import Connection, Lexicon, Ranker, Reranker, Retriever

if TYPE_CHECKING:
    from toolrank._bm25 import BM25Retriever
    from toolrank._confidence import (
        ACCURATE_CALIBRATION,
        EXACT_CONFIDENCE,
        RECOMMENDED_CONFIDENCE,
        Calibration,
        Evidence,
        confidence,
        lexical_strength,
    )
    from toolrank._equal import Traits
    from toolrank._full_text import FullTextTable
    from toolrank._fusion import (
        PART_DEPTH,
        UNITS,
        FusedScores,
        Fusion,
        linear_fusion,
        reciprocal_rank_fusion,
    )
    from toolrank._fuzzy import FuzzyRetriever
    from toolrank._language_model import ModelUsage
    from toolrank._matrix import MatrixRetriever
    from toolrank._names import VERB_PENALTY, NameRetriever, name_key, name_share, verb_prior
    from toolrank._postings import Posting, Postings
    from toolrank._prior import USAGE_BOUND, usage_prior
    from toolrank._query import (
        MAX_PARTS,
        MAX_TERMS,
        match_expression,
        query_terms,
        split_request,
    )
    from toolrank._ranker import Channel, HybridRanker, Ranking
    from toolrank._records import Contribution, Explanation, Filter, Hit, Query, RankedHit
    from toolrank._rerank import (
        Candidate,
        LLMReranker,
        RerankOutcome,
        RerankWhen,
        clear_lead,
    )
    from toolrank._search import HybridSearch, Placing, SearchResult
    from toolrank._spelling import SimilarTerm
    from toolrank._sql import Content
    from toolrank._stop_words import STOP_WORDS
    from toolrank._tables import Tables
    from toolrank._terms import TermMatch, TermStatistics
    from toolrank._vector import VectorRetriever
else:
    # Imported on first use, so that ranking by words alone does not wait for the rest.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [
    "ACCURATE_CALIBRATION",
    "EXACT_CONFIDENCE",
    "MAX_PARTS",
    "MAX_TERMS",
    "PART_DEPTH",
    "RECOMMENDED_CONFIDENCE",
    "STOP_WORDS",
    "UNITS",
    "USAGE_BOUND",
    "VERB_PENALTY",
    "BM25Retriever",
    "Calibration",
    "Candidate",
    "Channel",
    "Connection",
    "Content",
    "Contribution",
    "Evidence",
    "Explanation",
    "Filter",
    "FullTextTable",
    "FusedScores",
    "Fusion",
    "FuzzyRetriever",
    "Hit",
    "HybridRanker",
    "HybridSearch",
    "LLMReranker",
    "Lexicon",
    "MatrixRetriever",
    "ModelUsage",
    "NameRetriever",
    "Placing",
    "Posting",
    "Postings",
    "Query",
    "RankedHit",
    "Ranker",
    "Ranking",
    "RankingArgumentError",
    "RerankOutcome",
    "RerankWhen",
    "Reranker",
    "RetrievalError",
    "Retriever",
    "SearchResult",
    "SimilarTerm",
    "Tables",
    "TermMatch",
    "TermStatistics",
    "ToolRankError",
    "Traits",
    "VectorRetriever",
    "clear_lead",
    "confidence",
    "lexical_strength",
    "linear_fusion",
    "match_expression",
    "name_key",
    "name_share",
    "query_terms",
    "reciprocal_rank_fusion",
    "split_request",
    "usage_prior",
    "verb_prior",
]

_HOMES = {
    name: module
    for module, names in {
        "_bm25": "BM25Retriever",
        "_confidence": "ACCURATE_CALIBRATION EXACT_CONFIDENCE RECOMMENDED_CONFIDENCE Calibration "
        "Evidence confidence lexical_strength",
        "_equal": "Traits",
        "_full_text": "FullTextTable",
        "_fusion": "PART_DEPTH UNITS FusedScores Fusion linear_fusion reciprocal_rank_fusion",
        "_fuzzy": "FuzzyRetriever",
        "_language_model": "ModelUsage",
        "_matrix": "MatrixRetriever",
        "_names": "VERB_PENALTY NameRetriever name_key name_share verb_prior",
        "_postings": "Posting Postings",
        "_prior": "USAGE_BOUND usage_prior",
        "_query": "MAX_PARTS MAX_TERMS match_expression query_terms split_request",
        "_ranker": "Channel HybridRanker Ranking",
        "_records": "Contribution Explanation Filter Hit Query RankedHit",
        "_rerank": "Candidate LLMReranker RerankOutcome RerankWhen clear_lead",
        "_search": "HybridSearch Placing SearchResult",
        "_spelling": "SimilarTerm",
        "_sql": "Content",
        "_stop_words": "STOP_WORDS",
        "_tables": "Tables",
        "_terms": "TermMatch TermStatistics",
        "_vector": "VectorRetriever",
    }.items()
    for name in names.split()
}
