"""Measure what each part of the ranking is worth: hybrid search with one part off at a time.

usage: uv run python benchmarks/quality/ablation.py [SETS --make-tree SCRIPT]
           [--set NAME TREE QUERIES ...] [--split SPLIT] [--step N] [--parts NAME,...]

SETS is a folder of sets, of which SCRIPT makes trees, as for compare.py; --set adds a tree of tools
with judged queries. With --step, only every N-th query is used. Prints NDCG@10 of the whole
search, then for each part that is off the difference, with its 95 % interval from a paired
bootstrap over the queries; a difference whose interval contains 0 has a ~.
"""

# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownLambdaType=false

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pytools_hybrid import SearchMode, Settings, ToolSearch
from sets import Collection, build, find_sets, read_tree
from toolrank import HybridSearch, Tables, _ranking, _tables, linear_fusion
from toolrank._equal import ALONE, EqualRows
from toolrank.metrics import Evaluation, evaluate
from toolscan import ToolId

MEASURE = "ndcg@10"


def server(id_: str) -> str:
    return id_.rpartition(":")[0]


def name(id_: str) -> str:
    return id_.rpartition(":")[2]


ranking = partial(
    HybridSearch,
    group=server,
    name=name,
    label=lambda group: group.partition(":")[2],
    split=ToolId.words_of,
)


def lexical(**weights: float) -> Callable[[], AbstractContextManager[object]]:
    return partial(
        patch.object, _tables, "BM25Retriever", partial(_tables.BM25Retriever, **weights)
    )


def unequal(_: EqualRows, ids: Sequence[str], *__: object) -> Iterator[tuple[str, Any]]:
    return ((id_, ALONE) for id_ in ids)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A search with one part off: by its ranking, its mode, its fusion, or by a patch."""

    ranking: HybridSearch | None = None
    mode: SearchMode = SearchMode.HYBRID
    fusion: str = "linear"
    patched: Callable[[], AbstractContextManager[object]] = nullcontext


VARIANTS = {
    "names": Variant(patched=partial(patch.object, Tables, "named", lambda *_: [])),
    "spelling": Variant(patched=lexical(correction_weight=0.0)),
    "synonyms": Variant(patched=lexical(synonym_weight=0.0)),
    "correction of what is embedded": Variant(
        patched=partial(patch.object, HybridSearch, "correct_spelling", lambda _, text, **__: text)
    ),
    "subqueries": Variant(ranking=ranking(subquery_share=0.0)),
    "groups": Variant(ranking=ranking(group_weight=0.0)),
    "verbs": Variant(patched=partial(patch.object, _ranking, "names_an_action", lambda _: False)),
    "equal tools": Variant(patched=partial(patch.object, EqualRows, "distinct", unequal)),
    "strength (each list by its best)": Variant(ranking=ranking(fuse=linear_fusion)),
    "strength (ranks: RRF)": Variant(fusion="rrf"),
    "vectors": Variant(mode=SearchMode.BM25),
    "words": Variant(mode=SearchMode.VECTOR),
    "all but similar spelling": Variant(mode=SearchMode.FUZZY),
}


async def measured(collection: Collection, variant: Variant, database: Path) -> Evaluation:
    is_new = not database.exists()
    chosen = {"embedding_model": "static", "fusion": variant.fusion}
    settings = Settings(database=database).model_copy(update=chosen)
    run: dict[str, list[str]] = {}
    with variant.patched():
        async with ToolSearch(
            collection.tree, settings, refresh=False, ranking=variant.ranking
        ) as search:
            if is_new:
                await search.index.update()
            for query in collection.queries:
                answer = await search.search(query.text, mode=variant.mode, limit=10, record=False)
                run[query.id] = [str(found.entry.id) for found in answer.tools]
    return evaluate(run, {query.id: query.gold for query in collection.queries}, [MEASURE])


def table(collections: Sequence[Collection], folder: Path, parts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a table with a column for each set."""
    yield f"| off | {' | '.join(f'{it.name} ({len(it.queries)})' for it in collections)} |"
    yield "|---" * (len(collections) + 1) + "|"
    whole: list[Evaluation] = []
    for collection in collections:
        print(collection.name, file=sys.stderr, flush=True)
        database = folder / f"{collection.name}.db"
        whole.append(asyncio.run(measured(collection, Variant(), database)))
    yield f"| nothing | {' | '.join(f'{it.mean(MEASURE):.4f}' for it in whole)} |"
    for part in parts:
        cells: list[str] = []
        for collection, best in zip(collections, whole, strict=True):
            database = folder / f"{collection.name}.db"
            without = asyncio.run(measured(collection, VARIANTS[part], database))
            found = without.difference(best, MEASURE)
            low, high = found.low, found.high
            sure = "~" if low <= 0 <= high else ""
            cells.append(f"{found.mean:+.4f}{sure} ({low:+.4f} to {high:+.4f})")
        yield f"| {part} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="%(prog)s"
    )
    parser.add_argument("sets", type=Path, nargs="?", metavar="SETS")
    parser.add_argument("--make-tree", type=Path, metavar="SCRIPT")
    parser.add_argument(
        "--set", nargs=3, action="append", default=[], metavar=("NAME", "TREE", "QUERIES")
    )
    parser.add_argument("--split")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(VARIANTS))
    given = parser.parse_args()
    if given.sets is not None and given.make_tree is None:
        parser.error("sets need --make-tree, the script that makes a tree of a set")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sources = [(it.name, *build(it, given.make_tree, folder / it.name), it / "queries.jsonl")
                   for it in (find_sets(given.sets) if given.sets else ())]  # fmt: skip
        sources += [(it, Path(tree), Path(file), Path(file)) for it, tree, file in given.set]
        collections: list[Collection] = []
        for title, tree, file, origin in sources:
            has_splits = '"split"' in origin.read_text("utf-8")
            split = given.split if has_splits else None
            read = read_tree(title, tree, file, split=split, names="plain", origin=origin)
            queries = read.queries[:: given.step]
            collections.append(Collection(name=title, tree=tree, tools=read.tools, queries=queries))
        for line in table(collections, folder, given.parts):
            print(line, flush=True)


if __name__ == "__main__":
    main()
