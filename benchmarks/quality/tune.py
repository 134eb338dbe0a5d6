"""Measure tuning: learn from half of a tree's queries, and search for the other half.

usage: uv run python benchmarks/quality/tune.py TREE QUERIES [--weights FILE]
           [--requests N] [--shuffle]

QUERIES is as for `pytools-hybrid eval`; lines with the `split` `test` are not used. FILE has
weights of the offline model, written by train/, because the shipped ones were already trained on
the development sets. With N, only that many queries are used for learning; --shuffle exchanges
their answers. Prints the cross validation, then the result on the other half.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from pytools_hybrid.learn.evaluate import Configuration, EvaluationQuery, Evaluator
from pytools_hybrid.learn.figures import as_text, tables
from pytools_hybrid.learn.tune import tune
from pytools_hybrid.search import SearchMode, write_tuning
from pytools_hybrid.settings import Roots, Settings
from toolembed import StaticEmbedder


async def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--shuffle", action="store_true")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.queries.read_text("utf-8").splitlines()]
    asked = [
        EvaluationQuery(id=row["id"], text=row["query"], gold=tuple(row["gold"]))
        for row in rows
        if row.get("split") != "test"
    ]
    learned = [each for each in asked if crc32(each.text.encode()) % 2 == 0][: given.requests]
    others = [each for each in asked if each not in learned]
    if given.shuffle:
        gold = [each.gold for each in learned]
        learned = [
            replace(each, gold=gold[(number + 7) % len(gold)])
            for number, each in enumerate(learned)
        ]
    roots, embedder = Roots.of(given.tree), StaticEmbedder(weights=given.weights)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database=Path(folder, "index.db"))
        outcome = await tune(settings, roots, learned, embedder=embedder)
        print(tables(outcome.report), outcome, sep="\n\n", end="\n\n")
        file = Path(folder, "tuned")
        write_tuning(file, outcome.tuning)
        compared = [
            Configuration(
                name=name,
                mode=SearchMode.HYBRID,
                settings=settings.model_copy(update={"tuning": path}),
                selected_by=selected_by,
            )
            for name, path, selected_by in (
                ("untuned", Path("none"), {}),
                ("tuned", file, {"PYTOOLS_TUNING": "FILE"}),
            )
        ]
        evaluator = Evaluator(roots, database=settings.db_path, embedder=embedder)
        print(as_text(await evaluator.evaluate(others, compared, recall_at=(1, 5))))


if __name__ == "__main__":
    asyncio.run(main())
