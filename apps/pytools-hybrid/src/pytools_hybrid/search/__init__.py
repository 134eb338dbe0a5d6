"""Searching an index: from a request to ranked tools, with reasons."""

from pytools_hybrid.search._answering import Answering, observed
from pytools_hybrid.search._describe import DetailLevel, ToolDescription, short
from pytools_hybrid.search._engine import Searcher, calibration_of, hybrid_search
from pytools_hybrid.search._explain import (
    ChannelScore,
    Placement,
    breakdown,
    channel_shares,
    reason,
)
from pytools_hybrid.search._lookup import (
    MAX_NAME,
    MAX_NAMES,
    CategoryCount,
    check_categories,
    found_as,
    nearest_first,
)
from pytools_hybrid.search._notes import why_no_tools
from pytools_hybrid.search._query_vectors import QueryEmbedder
from pytools_hybrid.search._request import search_request
from pytools_hybrid.search._rerank import Reranking
from pytools_hybrid.search._tool_search import ToolSearch
from pytools_hybrid.search._tuning import Tuning, TuningFile, remove_tuning, write_tuning
from pytools_hybrid.search._types import (
    FoundTool,
    MatchType,
    RerankReport,
    Scope,
    SearchMode,
    SearchRequest,
    SearchResponse,
    cut_query,
    module_name,
)

__all__ = [
    "MAX_NAME",
    "MAX_NAMES",
    "Answering",
    "CategoryCount",
    "ChannelScore",
    "DetailLevel",
    "FoundTool",
    "MatchType",
    "Placement",
    "QueryEmbedder",
    "RerankReport",
    "Reranking",
    "Scope",
    "SearchMode",
    "SearchRequest",
    "SearchResponse",
    "Searcher",
    "ToolDescription",
    "ToolSearch",
    "Tuning",
    "TuningFile",
    "breakdown",
    "calibration_of",
    "channel_shares",
    "check_categories",
    "cut_query",
    "found_as",
    "hybrid_search",
    "module_name",
    "nearest_first",
    "observed",
    "reason",
    "remove_tuning",
    "search_request",
    "short",
    "why_no_tools",
    "write_tuning",
]
