"""What each ranking constant is worth: every table row changes one of them.

usage: uv run python benchmarks/quality/ablate.py [--model FILE] [--split SPLIT]
           --set TREE QUERIES [--set TREE QUERIES ...]

TREE is a tree of tools, QUERIES its judged queries (see benchmarks/search.py); with --split only
those lines that name it. FILE holds weights of the offline model that were not learned from these
queries: with weights that were, everything but vectors looks useless. Prints NDCG@10 of hybrid
search for each set and their mean, and the CPU time of a search.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytools_hybrid.index._store as store
import pytools_hybrid.search._engine as ranking
import toolrank
import toolrank._query as compound
import toolrank._ranker as ranker
from pytools_hybrid import Settings, ToolSearch
from toolembed import StaticEmbedder
from toolrank.metrics import evaluate

Change = tuple[object, str, object]


def units(bm25: float) -> Change:
    fuse = partial(toolrank.linear_fusion, units={"bm25": bm25, "vector": 1.0})
    return (ranking, "_FUSIONS", {"linear": fuse})


def fusion(fuse: Callable[..., object]) -> Change:
    return (ranking, "_FUSIONS", {"linear": fuse})


def weights(*values: float) -> Change:
    return (store, "_WEIGHTS", (*values, 1.0, 1.0, 0.5))


VARIANTS: dict[str, Sequence[Change]] = {
    "as it is": [],
    "fusion: by each list's maximum": [fusion(toolrank.linear_fusion)],
    "fusion: RRF, k = 60": [fusion(toolrank.reciprocal_rank_fusion)],
    "fusion: RRF, k = 5": [fusion(partial(toolrank.reciprocal_rank_fusion, rrf_k=5))],
    "unit of BM25: 0.012": [units(0.012)],
    "unit of BM25: 0.018": [units(0.018)],
    "unit of BM25: 0.022": [units(0.022)],
    "unit of BM25: 0.03": [units(0.03)],
    "weights name, desc, par, cat: 3 1 .5 .75": [weights(3, 1, 0.5, 0.75)],
    "weights name, desc, par, cat: 3 1 1 1": [weights(3, 1, 1, 1)],
    "weights name, desc, par, cat: 1 1 1 1": [weights(1, 1, 1, 1)],
    "evenness: 1 (BM25 as it is)": [(store, "_EVENNESS", 1.0)],
    "evenness: 0.5": [(store, "_EVENNESS", 0.5)],
    "common terms left out: from 10 % of tools": [(store, "_COMMON", 0.1)],
    "common terms left out: none": [(store, "_COMMON", 1.0)],
    "no spelling": [(store, "_SIMILAR_WEIGHT", 0.0)],
    "no parts": [(ranking, "_PART_SHARE", 0.0)],
    "share of parts: 0.5": [(ranking, "_PART_SHARE", 0.5)],
    "parts: 2 at most": [(compound, "MAX_PARTS", 2)],
    "parts: 6 at most": [(compound, "MAX_PARTS", 6)],
    "no category prior": [(ranking, "_CATEGORY_WEIGHT", 0.0)],
    "category prior: 0.2": [(ranking, "_CATEGORY_WEIGHT", 0.2)],
    "category prior: 0.8": [(ranking, "_CATEGORY_WEIGHT", 0.8)],
    "depth: 300, of parts 100": [(ranker, "_MIN_DEPTH", 300), (ranker, "PART_DEPTH", 100)],
    "depth: 40": [(ranker, "_MIN_DEPTH", 40)],
    "duplicates not grouped": [(ranking, "group_duplicates", lambda hits, **_: hits)],
}


@contextmanager
def changed(changes: Sequence[Change]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


async def ndcg(
    tree: Path, queries: Path, split: str, database: Path, weights: Path | None
) -> tuple[float, float]:
    lines = [json.loads(line) for line in queries.open("rb")]
    asked = [line for line in lines if not split or line.get("split", split) == split]
    embedder = StaticEmbedder(weights=weights)
    async with ToolSearch(
        tree, Settings(db_path=database), embedder=embedder, refresh=False
    ) as tools:
        await tools.index.refresh()
        await tools.index.embed_pending()
        started = time.process_time()
        run = {
            line["id"]: [
                str(found.entry.id) for found in (await tools.search(line["query"], limit=10)).tools
            ]
            for line in asked
        }
        seconds = time.process_time() - started
    qrels = {line["id"]: line["gold"] for line in asked}
    return evaluate(run, qrels, ["ndcg@10"]).mean("ndcg@10"), 1000 * seconds / len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", nargs=2, action="append", required=True, type=Path, dest="sets")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--split", default="")
    arguments = parser.parse_args()
    names = [queries.parent.name + "/" + queries.stem for _, queries in arguments.sets]
    print("| variant |", " | ".join(names), "| mean | ms |")
    print("|---|" + "--:|" * (len(names) + 2))
    with tempfile.TemporaryDirectory() as folder:
        for variant, changes in VARIANTS.items():
            with changed(changes):
                measured = [
                    asyncio.run(
                        ndcg(
                            tree,
                            queries,
                            arguments.split,
                            Path(folder, f"{n}.db"),
                            arguments.model,
                        )
                    )
                    for n, (tree, queries) in enumerate(arguments.sets)
                ]
            values = [value for value, _ in measured]
            milliseconds = statistics.fmean(each for _, each in measured)
            row = [f"{value:.3f}" for value in values] + [f"{statistics.fmean(values):.4f}"]
            print(f"| {variant} |", " | ".join([*row, f"{milliseconds:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
