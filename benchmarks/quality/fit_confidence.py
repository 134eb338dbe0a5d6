"""Fit the confidence of hits: does the first one answer the request at all?

Each tree is searched twice for each of its queries: as it is, and without the tools that answer it
(their whole category; if there is only one, they and the tools with similar vectors). The first
search is a good answer if a right tool is among the first three, and is not used otherwise; the
second must be no answer. Files of requests that no tool answers can be added. All trees have
the same weight, and so have the answerable and the other requests of a tree. Lines with the `split`
`test` are only measured.

    python benchmarks/quality/fit_confidence.py --tree NAME TREE QUERIES \
        --no-answer TREE NAME QUERIES --everyday NAME [--model MODEL]

(benchmarks/quality/README.md has the whole command.) It prints, for each mode, how well good
answers are distinguished from the others, where each tree is judged by a model of the other trees.
Then come the coefficients: those of words for `toolrank._confidence`, those of vectors for its
`Calibration`, or, for toolembed's accurate model, its `Calibration.accurate`.
Their intercept is the one at which `RECOMMENDED_CONFIDENCE` loses 3 % of the good answers to the
everyday requests (10 % by vectors alone). The last table shows which answers searches doubt with
the current coefficients. Trees with the same path are held out together. Hits that the request
names are certain, so they are not used.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confidence_examples import FEATURES, Example, collect
from pytools_hybrid.search import calibration_of
from toolrank import RECOMMENDED_CONFIDENCE, Calibration
from toolrank._confidence import confidence

# The share of good answers that may be lost; vectors alone are unreliable among few tools.
LOST = {"words": 0.03, "vectors": 0.1, "both": 0.03, "fuzzy": 0.03}
# Keeps the least certain accepted answer away from the threshold.
_MARGIN = 0.1


def fit(mode: str, examples: Sequence[Example]) -> np.ndarray[Any, Any]:
    """Fit a logistic model by Newton's method, and return its intercept and coefficients."""
    examples = [each for each in examples if each.split == "dev" and each.is_open]
    x = np.array([each.values(mode) for each in examples])
    y = np.array([each.good for each in examples], dtype=float)
    kinds = [(each.tree, each.good) for each in examples]
    counts = Counter(kinds)
    weights = np.array([1 / counts[kind] for kind in kinds])
    weights /= weights.sum()
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    z = np.column_stack([np.ones(len(x)), (x - mean) / deviation])
    penalty: np.ndarray[Any, Any] = np.diag([0.0, *[1e-3] * x.shape[1]])
    solution: np.ndarray[Any, Any] = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ solution))
        slope = z.T @ (weights * (p - y)) + penalty @ solution
        curvature = (z.T * (weights * p * (1 - p))) @ z + penalty
        solution = np.subtract(solution, np.linalg.solve(curvature, slope))
    coefficients = solution[1:] / deviation
    return np.array([solution[0] - coefficients @ mean, *coefficients])


def logit(mode: str, model: np.ndarray[Any, Any], example: Example) -> float:
    if not example.is_open:
        return -math.inf if example.evidence is None else math.inf
    return float(model[0] + np.array(example.values(mode)) @ model[1:])


def told_apart(mode: str, model: np.ndarray[Any, Any], examples: Sequence[Example]) -> float:
    """Return the area under the ROC curve: how often a good answer has the higher confidence."""
    sure = {
        good: np.array([logit(mode, model, each) for each in examples if each.good == good])
        for good in (True, False)
    }
    return float((sure[True][:, None] > sure[False][None]).mean())


def moved(mode: str, model: np.ndarray[Any, Any], everyday: Sequence[Example]) -> float:
    """Return the intercept at which a given share of good everyday answers is doubted."""
    sure = sorted(logit(mode, model, each) for each in everyday if each.good)
    return float(model[0]) - sure[int(LOST[mode] * len(sure))] + _MARGIN


def table(mode: str, found: Sequence[Example], everyday: str) -> None:
    """Print how well a model of the other trees judges each tree, and the model of all trees."""
    print(f"\n## {mode}\n\n| tree held out | told apart |\n| --- | --: |")
    for path in dict.fromkeys(each.tree for each in found):
        held = [each for each in found if each.tree == path]
        others = fit(mode, [each for each in found if each.tree != path] or held)
        names = ", ".join(dict.fromkeys(each.name for each in held))
        print(f"| {names} | {told_apart(mode, others, held):.3f} |")
    model = fit(mode, found)
    intercept = moved(
        mode, model, [each for each in found if each.name == everyday and each.split == "dev"]
    )
    named = {
        name: round(float(value), 2) for name, value in zip(FEATURES[mode], model[1:], strict=True)
    }
    print(f"\nmodel: {intercept:.2f}, {named}")


def doubted(found: dict[str, list[Example]], calibration: Calibration) -> None:
    """Print the share of doubted answers, by file and split."""
    print(f"\n## Doubted as it is now (confidence below {RECOMMENDED_CONFIDENCE})\n")
    print("| requests | split | " + " | ".join(FEATURES) + " |")
    print("| --- | --- |" + " --: |" * len(FEATURES))
    kinds = {
        (each.name, each.split, each.good) for mode in found.values() for each in mode if each.whole
    }
    for name, split, good in sorted(kinds, key=lambda kind: (kind[2], *kind)):
        cells: list[str] = []
        for examples_ in found.values():
            sure = [
                0.0 if each.evidence is None else confidence(each.evidence, calibration=calibration)
                for each in examples_
                if each.whole and (each.name, each.split, each.good) == (name, split, good)
            ]
            doubt = sum(it < RECOMMENDED_CONFIDENCE for it in sure)
            cells.append(f"{doubt} of {len(sure)} ({100 * doubt / max(1, len(sure)):.1f} %)")
        what = "good answers" if good else "no tool answers"
        print(f"| {name}, {what} | {split} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tree",
        nargs=3,
        action="append",
        required=True,
        metavar=("NAME", "TREE", "QUERIES"),
        help="a tree of tools, and queries with gold",
    )
    parser.add_argument(
        "--no-answer",
        nargs=3,
        action="append",
        default=[],
        metavar=("TREE", "NAME", "QUERIES"),
        help="queries that no tool of one of these trees answers",
    )
    parser.add_argument("--everyday", required=True, help="the NAME of everyday requests")
    parser.add_argument(
        "--at-most", type=int, default=400, help="maximum number of queries per file"
    )
    parser.add_argument("--model", default="static", help="the embedding model")
    options = parser.parse_args()
    files: dict[Path, list[tuple[str, Path]]] = {}
    for name, tree, queries in options.tree:
        files.setdefault(Path(tree), []).append((name, Path(queries)))
    for tree, name, queries in options.no_answer:
        files.setdefault(Path(tree), []).append((name, Path(queries)))
    found: dict[str, list[Example]] = {mode: [] for mode in FEATURES}
    for path, asked in files.items():
        collected = asyncio.run(collect(path, asked, options.model, at_most=options.at_most))
        for mode, examples_ in collected.items():
            found[mode] += examples_
    for mode, examples_ in found.items():
        table(mode, examples_, options.everyday)
    doubted(found, calibration_of(options.model))


if __name__ == "__main__":
    main()
