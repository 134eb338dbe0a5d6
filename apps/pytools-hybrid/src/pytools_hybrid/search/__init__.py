"""Searching an index: from a request to ranked tools, with reasons."""

from pytools_hybrid.search._answering import Answering, observed
from pytools_hybrid.search._notes import why_no_tools
from pytools_hybrid.search._request import search_request
from pytools_hybrid.search._tuning import Tuning, TuningFile, remove_tuning, write_tuning
from pytools_hybrid.search.describe import DetailLevel, ToolDescription, short
from pytools_hybrid.search.engine import Searcher, calibration_of, hybrid_search
from pytools_hybrid.search.explain import (
    ChannelScore,
    Placement,
    breakdown,
    channel_shares,
    reason,
)
from pytools_hybrid.search.lookup import (
    MAX_NAME,
    MAX_NAMES,
    CategoryCount,
    check_categories,
    found_as,
    nearest_first,
)
from pytools_hybrid.search.rerank import Reranking
from pytools_hybrid.search.tool_search import ToolSearch
from pytools_hybrid.search.types import (
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
from pytools_hybrid.search.vectors import QueryEmbedder

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
