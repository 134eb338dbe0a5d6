"""Measure searches with and without a `capabilities.toml`, by the weight of its column.

usage: uv run python benchmarks/quality/measure_capabilities.py TREE QUERIES FILE.toml
           [--model FILE] [--split dev] [--weights 0.25,0.5,1] [--embed]

TREE is a tree of tools, QUERIES its judged queries, FILE the aliases of some of its tools.
capabilities/ has files that a language model wrote for two trees, from the tools' texts alone, with
the instructions of `pytools-hybrid enrich`. Queries whose right tools have no aliases are shown as
a separate group, because the aliases of other tools may harm them. --model: weights of the offline
model that were not trained on these queries. --embed: also append the aliases to the texts that are
embedded. `±` is half of a 95 % interval.
"""

# pyright: reportCallIssue=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytools_hybrid.index.store as index_store
from pytools_hybrid import SearchMode, Settings, ToolSearch
from pytools_hybrid.index import parse_capabilities
from toolembed import StaticEmbedder
from toolrank.metrics import Evaluation, evaluate

MODES = SearchMode.HYBRID, SearchMode.BM25
MEASURES = "ndcg@10", "recall@1", "recall@5", "recall@10"

Run = dict[str, list[str]]


class Measurement:
    """One tree, its queries, and the aliases of its tools."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        lines = [json.loads(line) for line in arguments.queries.open("rb")]
        split = arguments.split
        self.asked = [line for line in lines if not split or line.get("split", split) == split]
        self.said = parse_capabilities(arguments.file.read_text("utf-8"), arguments.file)
        self.tree: Path = arguments.tree
        self.model: Path | None = arguments.model
        self.embeds: bool = arguments.embed

    async def runs(self, database: Path, *, weight: float | None) -> dict[SearchMode, Run]:
        """Search for all queries in each mode; without a weight, without aliases."""
        embedder = StaticEmbedder(weights=self.model)
        settings = Settings(database=database, usage_log=False)
        columns = {"alias_words": weight or 0.0}
        async with AsyncExitStack() as stack:
            # The weights are read when a store is opened.
            stack.enter_context(patch.dict(index_store._COLUMN_WEIGHTS, columns))
            tools = await stack.enter_async_context(
                ToolSearch(self.tree, settings, embedder=embedder, refresh=False)
            )
            await tools.index.update(vectors=False)
            ids = list(tools.index.store.stored(reader_version="").entries)
            tools.index.store.annotate({} if weight is None else self.said.aliases(ids))
            if self.embeds:
                await embed_with_aliases(tools, embedder)
            await tools.index.update(files=False)
            return {mode: await self.ask(tools, mode) for mode in MODES}

    async def ask(self, tools: ToolSearch, mode: SearchMode) -> Run:
        """Return the ids that each query finds."""
        run: Run = {}
        for line in self.asked:
            response = await tools.search(line["query"], mode=mode, limit=10)
            run[line["id"]] = [str(found.entry.id) for found in response.tools]
        return run

    def groups(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return the judgements of all queries, and of those with and without aliases."""
        golds = {line["id"]: line["gold"] for line in self.asked}
        about = {id_ for id_, gold in golds.items() if self.said.aliases(gold)}
        yield "all", golds
        if len(about) < len(golds):
            yield "of tools with aliases", {id_: golds[id_] for id_ in golds if id_ in about}
            yield "of others", {id_: golds[id_] for id_ in golds if id_ not in about}


async def embed_with_aliases(tools: ToolSearch, embedder: StaticEmbedder) -> None:
    with tools.index.store.reading() as reader:
        rows = reader.connection.execute("SELECT text_hash, aliases FROM entries").fetchall()
    aliases = {text_hash: ". ".join(json.loads(texts)) for text_hash, texts in rows}
    pending = tools.index.store.pending(embedder.model_id, limit=100_000)
    texts = [f"{text}\n{aliases[text_hash]}" for text_hash, text in pending.items()]
    vectors = await embedder.embed_documents(texts)
    tools.index.store.put_vectors(embedder.model_id, dict(zip(pending, vectors, strict=True)))


def row(name: str, group: str, mode: SearchMode, now: Evaluation, before: Evaluation) -> str:
    difference = now.difference(before, "ndcg@10")
    half = (difference.high - difference.low) / 2
    change = f"{difference.mean:+.3f} ± {half:.3f}"
    cells = [name, mode.value, group, *(f"{now.mean(measure):.3f}" for measure in MEASURES), change]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--split", default="")
    parser.add_argument("--weights", default="0.25,0.5,1")
    parser.add_argument("--embed", action="store_true")
    arguments = parser.parse_args()
    measurement = Measurement(arguments)
    weights: Sequence[float | None] = [None, *map(float, arguments.weights.split(","))]
    groups = list(measurement.groups())
    print("| weight | mode | queries |", " | ".join(MEASURES), "| NDCG@10, change |")
    print("|---|---|---|" + "--:|" * (len(MEASURES) + 1))
    with tempfile.TemporaryDirectory() as folder:
        baseline: dict[SearchMode, Run] = {}
        for number, weight in enumerate(weights):
            database = Path(folder, f"{number}.db")
            runs = asyncio.run(measurement.runs(database, weight=weight))
            baseline = baseline or runs
            for mode in MODES:
                for group, golds in groups:
                    evaluations = [
                        evaluate({id_: run[mode][id_] for id_ in golds}, golds, MEASURES)
                        for run in (runs, baseline)
                    ]
                    name = "no aliases" if weight is None else f"{weight:g}"
                    print(row(name, f"{group} ({len(golds)})", mode, *evaluations), flush=True)


if __name__ == "__main__":
    main()
