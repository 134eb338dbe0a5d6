"""Measure quality and speed of search over a tree of tools with judged queries.

usage: uv run python benchmarks/search.py [--model FILE] TREE QUERIES [TREE QUERIES ...]

TREE is a tree of tools. QUERIES has one JSON object per line: `query`, and `gold`, the ids of the
tools that answer it. FILE has other weights of the offline model, written by
benchmarks/quality/train. It prints, for each channel and fusion, over all queries of a tree: recall
at 1 (share of queries with a right tool first), recall at 5 (mean share of the right tools among
the first five), and NDCG at 10 with binary gains (Järvelin & Kekäläinen 2002); then the time of one
hybrid search in this process, including the embedding of the query, and the number of texts that
the offline model embeds per second.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pytools_hybrid import SearchMode, Settings, ToolSearch
from toolembed import StaticEmbedder

MEASURES = ("R@1", "R@5", "NDCG@10")
VARIANTS = {
    "bm25": (SearchMode.BM25, "linear"),
    "vector": (SearchMode.VECTOR, "linear"),
    "rrf, k = 60": (SearchMode.HYBRID, "rrf"),
    "linear": (SearchMode.HYBRID, "linear"),
}


def judge(found: Sequence[str], gold: set[str]) -> tuple[float, float, float]:
    gain = sum(1 / math.log2(rank + 1) for rank, id_ in enumerate(found, 1) if id_ in gold)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    return float(found[:1] != [] and found[0] in gold), len(gold & set(found[:5])) / len(gold), (
        gain / ideal
    )  # fmt: skip


async def measure(
    tree: Path, queries: Path, database: Path, weights: Path | None
) -> dict[str, tuple[float, ...]]:
    judged = [json.loads(line) for line in queries.read_text("utf-8").splitlines()]
    results: dict[str, tuple[float, ...]] = {}
    for variant, (mode, fusion) in VARIANTS.items():
        embedder = StaticEmbedder(weights=weights)
        settings = Settings(database=database, fusion=fusion)
        async with ToolSearch(tree, settings, embedder=embedder, refresh=False) as search:
            report = (await search.index.update(vectors=False)).report
            started = time.process_time()
            embedded = (await search.index.update(files=False)).embedded
            seconds = time.process_time() - started
            if embedded:
                print(f"{tree}: {report.added} tools, {len(judged)} queries")
                print(f"  embedded {embedded} texts, {embedded / seconds:.0f} a CPU second")
            values, times = [], []
            for line in judged:
                started = time.perf_counter()
                response = await search.search(line["query"], mode=mode, limit=10)
                times.append(1000 * (time.perf_counter() - started))
                found = [str(tool.entry.id) for tool in response.tools]
                values.append(judge(found, set(line["gold"])))
        results[variant] = tuple(statistics.fmean(column) for column in zip(*values, strict=True))
        shown = "  ".join(
            f"{name} {value:.3f}" for name, value in zip(MEASURES, results[variant], strict=True)
        )
        cuts = statistics.quantiles(times, n=20)
        print(f"  {variant:12} {shown}   p50 {cuts[9]:.1f} ms  p95 {cuts[18]:.1f} ms")
    return results


def main() -> None:
    paths = [Path(argument) for argument in sys.argv[1:]]
    weights = None
    if paths[:1] == [Path("--model")]:
        weights, paths = paths[1], paths[2:]
    if not paths or len(paths) % 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        sets = [
            asyncio.run(measure(tree, queries, Path(folder, f"{number}.db"), weights))
            for number, (tree, queries) in enumerate(zip(paths[::2], paths[1::2], strict=True))
        ]
    print("mean over the sets")
    for variant in VARIANTS:
        means = [
            statistics.fmean(column) for column in zip(*(s[variant] for s in sets), strict=True)
        ]
        print(
            f"  {variant:12}",
            "  ".join(f"{n} {v:.3f}" for n, v in zip(MEASURES, means, strict=True)),
        )


if __name__ == "__main__":
    main()
