"""Compare our search with its peers, as their authors ship them, on tools with judged queries.

usage: uv run --project benchmarks/quality python benchmarks/quality/compare.py
           [SETS --make-tree SCRIPT] [--tree TREE QUERIES]...
           [--split SPLIT] [--methods NAME,NAME,...] [--names plain|qualified] [--json FILE]

SETS is a folder of sets, each a folder with tools.jsonl and queries.jsonl; `SCRIPT SET OUT` turns
one into OUT/tree and OUT/queries.jsonl. --tree adds an existing tree and its queries, which do not
count for the mean. Markdown tables go to standard output, progress to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Failure, Run, measure
from peers import METHODS
from report import Judged, json_report, judge, mean_section, section, versions
from sets import Collection, build, find_sets, read_tree


def main() -> None:
    arguments = _arguments()
    sets: list[Judged] = []
    trees: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder:
        for place, collections in (
            (sets, _sets(arguments, Path(folder))),
            (trees, _trees(arguments)),
        ):
            for collection in collections:
                judged = judge(collection, _measured(collection, arguments.methods))
                place.append(judged)
                print(section(judged), flush=True)
    if len(sets) > 1:
        print(mean_section(sets))
    found = versions(arguments.methods)
    print(", ".join(f"{name} {version}" for name, version in found.items()))
    if arguments.json:
        asked = {"split": arguments.split, "names": arguments.names, "versions": found}
        report = asked | json_report(sets, trees)
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="%(prog)s"
    )
    parser.add_argument("sets", type=Path, nargs="?", metavar="SETS")
    parser.add_argument("--make-tree", type=Path, metavar="SCRIPT")
    parser.add_argument(
        "--tree", type=Path, nargs=2, action="append", default=[], metavar=("TREE", "QUERIES")
    )
    parser.add_argument("--split", help="use only the queries of this split, such as dev")
    parser.add_argument(
        "--methods",
        help=f"names separated by commas, from: {', '.join(METHODS)}",
        type=lambda text: [name.strip() for name in text.split(",")],
        default=list(METHODS),
    )
    parser.add_argument(
        "--names",
        choices=("plain", "qualified"),
        default="plain",
        help="whether peers see the category before a tool's name",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.methods if name not in METHODS]:
        parser.error(f"unknown method {unknown[0]!r}; choose from: {', '.join(METHODS)}")
    if arguments.sets is None and not arguments.tree:
        parser.error("name a folder of sets, or a --tree with its queries")
    if arguments.sets is not None and arguments.make_tree is None:
        parser.error("sets need --make-tree, the script that makes a tree of a set")
    return arguments


def _sets(arguments: argparse.Namespace, folder: Path) -> Iterator[Collection]:
    for source in find_sets(arguments.sets) if arguments.sets else ():
        tree, queries = build(source, arguments.make_tree, folder / source.name)
        yield read_tree(
            source.name,
            tree,
            queries,
            split=arguments.split,
            names=arguments.names,
            origin=source / "queries.jsonl",
        )


def _trees(arguments: argparse.Namespace) -> Iterator[Collection]:
    for tree, queries in arguments.tree:
        name = f"{queries.resolve().parent.name}/{queries.stem}"
        yield read_tree(name, tree, queries, split=arguments.split, names=arguments.names)


def _measured(collection: Collection, methods: list[str]) -> dict[str, Run | Failure]:
    runs: dict[str, Run | Failure] = {}
    for number, method in enumerate(methods, 1):
        print(f"{collection.name} [{number}/{len(methods)}] {method}", file=sys.stderr, flush=True)
        runs[method] = measure(method, collection)
    return runs


if __name__ == "__main__":
    main()
