"""Measure vectors alone, a quick check between steps of training."""

from __future__ import annotations

import numpy as np
from toolrank.metrics import evaluate

from train.data import Collection
from train.tensors import Array

__all__ = ["judge"]

_DEPTH = 10


def judge(collection: Collection, requests: Array, tools: Array) -> str:
    """Return NDCG@10 and recall@5 of a collection's requests over its tools."""
    near = np.argsort(-(requests @ tools.T), axis=1)[:, :_DEPTH]
    found = {str(n): [str(tool) for tool in row] for n, row in enumerate(near)}
    right = {str(n): frozenset(map(str, row)) for n, row in enumerate(collection.right)}
    judged = evaluate(found, right, ["ndcg@10", "recall@5"])
    return f"NDCG@10 {judged.mean('ndcg@10'):.4f}, R@5 {judged.mean('recall@5'):.4f}"
