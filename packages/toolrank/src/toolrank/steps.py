"""The steps of a search, for callers that run some of them themselves, as pytools-hybrid does."""

from toolrank._confidence import ACCURATE_CALIBRATION, EXACT_CONFIDENCE
from toolrank._equal import Traits
from toolrank._fusion import PART_DEPTH, UNITS, FusedScores, linear_fusion, reciprocal_rank_fusion
from toolrank._query import match_expression, query_terms, split_request
from toolrank._ranker import USAGE_BOUND, Ranking, usage_prior
from toolrank._records import Contribution, Explanation, RankedHit
from toolrank._search import RankExplanation

__all__ = [
    "ACCURATE_CALIBRATION",
    "EXACT_CONFIDENCE",
    "PART_DEPTH",
    "UNITS",
    "USAGE_BOUND",
    "Contribution",
    "Explanation",
    "FusedScores",
    "RankExplanation",
    "RankedHit",
    "Ranking",
    "Traits",
    "linear_fusion",
    "match_expression",
    "query_terms",
    "reciprocal_rank_fusion",
    "split_request",
    "usage_prior",
]
