"""Measure rankings against relevance judgements.

Ask how good a ranking is, how sure that is, and whether another one is better::

    evaluation = evaluate(run, qrels, ["recall@5", "ndcg@10", "mrr"])
    evaluation.mean("ndcg@10")
    evaluation.confidence_interval("ndcg@10")
    evaluation.difference(baseline, "ndcg@10")

One query: `recall`, `precision`, `hit`, `reciprocal_rank`, `ndcg`, `completeness`.
Many queries: `evaluate`, `Evaluation`, `Measure`, `Interval`, `Difference`.
"""

from toolrank.metrics._bootstrap import Interval
from toolrank.metrics._evaluation import Difference, Evaluation, evaluate
from toolrank.metrics._formulas import (
    Relevant,
    completeness,
    hit,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from toolrank.metrics._measure import Measure

__all__ = [
    "Difference",
    "Evaluation",
    "Interval",
    "Measure",
    "Relevant",
    "completeness",
    "evaluate",
    "hit",
    "ndcg",
    "precision",
    "recall",
    "reciprocal_rank",
]
