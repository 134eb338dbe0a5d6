"""The steps of a search, for callers that run some of them themselves, as pytools-hybrid does."""

from toolrank._equal import Traits as Traits
from toolrank._fusion import UNITS as UNITS
from toolrank._fusion import FusedScores as FusedScores
from toolrank._fusion import linear_fusion as linear_fusion
from toolrank._fusion import reciprocal_rank_fusion as reciprocal_rank_fusion
from toolrank._query import query_terms as query_terms
from toolrank._query import split_request as split_request
from toolrank._ranker import Ranking as Ranking
from toolrank._ranker import usage_prior as usage_prior
from toolrank._records import Contribution as Contribution
from toolrank._records import Explanation as Explanation
from toolrank._records import RankedHit as RankedHit
from toolrank._search import RankExplanation as RankExplanation
