"""Rank rows of a SQLite database for a natural-language query.

The package does not care what the rows are. Point `HybridSearch` at tables, and search::

    tables = Tables(connection, "docs_fts", weights=(3, 1), vectors="docs_vec")
    for result in HybridSearch(tables, embed=model.encode_queries).search("merge two pdf files"):
        print(result.id, result.score, result.confidence)
"""

from toolrank._confidence import RECOMMENDED_CONFIDENCE as RECOMMENDED_CONFIDENCE
from toolrank._confidence import Calibration as Calibration
from toolrank._fusion import linear_fusion as linear_fusion
from toolrank._fusion import reciprocal_rank_fusion as reciprocal_rank_fusion
from toolrank._names import name_key as name_key
from toolrank._postings import PostingsCache as PostingsCache
from toolrank._query import Query as Query
from toolrank._records import Contribution as Contribution
from toolrank._records import Explanation as Explanation
from toolrank._records import Filter as Filter
from toolrank._records import Hit as Hit
from toolrank._records import IdColumn as IdColumn
from toolrank._search import HybridSearch as HybridSearch
from toolrank._search import RankExplanation as RankExplanation
from toolrank._search import SearchResult as SearchResult
from toolrank._tables import Tables as Tables
from toolrank._vectors import MatrixRetriever as MatrixRetriever
from toolrank.errors import ToolRankError as ToolRankError
