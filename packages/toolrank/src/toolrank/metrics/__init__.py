"""Measure rankings against relevance judgements, and exchange both as TREC files.

Ask how good a ranking is, how sure that is, and whether another one is better::

    evaluation = evaluate(run, qrels, ["recall@5", "ndcg@10", "mrr"])
    evaluation.mean("ndcg@10")
    evaluation.confidence_interval("ndcg@10")
    evaluation.difference(baseline, "ndcg@10")

One query: `recall`, `precision`, `hit`, `reciprocal_rank`, `ndcg`, `completeness`.
Many queries: `evaluate`, `Evaluation`, `Measure`, `Interval`, `Difference`.
TREC files: `read_run`, `write_run`, `read_qrels`, `write_qrels`, and `ranked_ids` between a run
with scores and what `evaluate` takes.
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
from toolrank.metrics._trec import (
    TrecFormatError,
    ranked_ids,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)

__all__ = [
    "Difference",
    "Evaluation",
    "Interval",
    "Measure",
    "Relevant",
    "TrecFormatError",
    "completeness",
    "evaluate",
    "hit",
    "ndcg",
    "precision",
    "ranked_ids",
    "read_qrels",
    "read_run",
    "recall",
    "reciprocal_rank",
    "write_qrels",
    "write_run",
]
