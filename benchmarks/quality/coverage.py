"""Measure hybrid search while only some of the tools have a vector.

usage: uv run python benchmarks/quality/coverage.py [--at-once] [--model FILE] [--split SPLIT]
           [--draws N] --set TREE QUERIES [--set TREE QUERIES ...]

TREE is a tree of tools, QUERIES its judged queries (see benchmarks/search.py), of which --split
selects a part. The texts get their vectors in a random order, a tenth of them at a time. Prints
hit@1 and hit@5 (share of queries with a right tool first, or among the first five) and NDCG@10 for
each set: of words alone, and of hybrid search at each step, as the mean of N orders.

The model is the offline one. With --at-once it embeds relevant tools before it answers a search, as
it always does for users. Without, only the tools of the step have a vector, as with a slow or paid
model, and the offline model answers until nine of ten have one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

from pytools_hybrid import SearchMode, Settings, ToolSearch
from pytools_hybrid.index import open_store
from pytools_hybrid.settings import Roots
from toolembed import StaticEmbedder
from toolrank.metrics import evaluate

MEASURES = ("hit@1", "hit@5", "ndcg@10")
STEPS = 10

Row = list[float]


class UnhurriedEmbedder(StaticEmbedder):
    """The offline model under another name, which embeds no tools during a search."""

    def __init__(self, *, weights: Path | None = None) -> None:
        super().__init__(weights=weights)
        self.model_id = "unhurried:tools2"

    @property
    def is_instant(self) -> bool:
        """Return False: it is never fast enough."""
        return False


async def judged(search: ToolSearch, asked: Sequence[dict[str, Any]], mode: SearchMode) -> Row:
    run = {
        line["id"]: [
            str(found.entry.id)
            for found in (await search.search(line["query"], mode=mode, limit=10)).tools
        ]
        for line in asked
    }
    evaluation = evaluate(run, {line["id"]: line["gold"] for line in asked}, MEASURES)
    return [evaluation.mean(measure) for measure in MEASURES]


async def curve(
    tree: Path, asked: Sequence[dict[str, Any]], embedder: StaticEmbedder, seed: int, database: Path
) -> list[Row]:
    """Measure words alone, then hybrid search at each step of coverage."""
    settings = Settings(database=database)
    async with ToolSearch(tree, settings, embedder=embedder, refresh=False) as search:
        await search.index.update(vectors=False)
        rows = [await judged(search, asked, SearchMode.BM25)]
        with closing(open_store(Roots.of(tree), settings)) as store:
            texts = store.pending(embedder.model_id, limit=1_000_000)
            vectors = await embedder.embed_documents(list(texts.values()))
            pairs = sorted(zip(texts, vectors, strict=True))
            random.Random(seed).shuffle(pairs)
            for step in range(STEPS + 1):
                first, last = (len(pairs) * max(0, n) // STEPS for n in (step - 1, step))
                store.put_vectors(embedder.model_id, dict(pairs[first:last]))
                rows.append(await judged(search, asked, SearchMode.HYBRID))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", nargs=2, action="append", required=True, type=Path, dest="sets")
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--split", default="")
    parser.add_argument("--draws", type=int, default=1)
    arguments = parser.parse_args()
    split = arguments.split
    kind = StaticEmbedder if arguments.at_once else UnhurriedEmbedder
    steps = [f"{100 * step // STEPS} %" for step in range(STEPS + 1)]
    print("| set | words alone |", " | ".join(steps), "|")
    print("|---|" + "--:|" * (len(steps) + 1))
    for tree, queries in arguments.sets:
        lines = [json.loads(line) for line in queries.open("rb")]
        asked = [line for line in lines if not split or line.get("split", split) == split]
        draws: list[list[Row]] = []
        for seed in range(arguments.draws):
            with tempfile.TemporaryDirectory() as folder:
                embedder, database = kind(weights=arguments.model), Path(folder, "index.db")
                draws.append(asyncio.run(curve(tree, asked, embedder, seed, database)))
        name = f"{queries.parent.name}/{queries.stem}"
        for place, measure in enumerate(MEASURES):
            values = [fmean(row[place] for row in rows) for rows in zip(*draws, strict=True)]
            print(f"| {name}, {measure} | {' | '.join(f'{v:.3f}' for v in values)} |", flush=True)


if __name__ == "__main__":
    main()
