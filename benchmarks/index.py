"""Measure the cost of the index by size of tree, as ratios to floors measured in the same run.

usage: uv run python benchmarks/index.py [--sizes 100,1000,10000] [--trees DIR] [--json FILE]

For each size a tree is generated, indexed, searched, changed and served; every figure is printed
with its floor and its aim, followed by how each cost grows with the tree. CPU times are those of
all threads, and of commands include their start; p50 and p95 are wall times. With --trees the trees
are kept there and reused. Linux only: memory is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from index_candidates import lexical, nearest
from index_figures import Figure, growth, overview, table
from index_memory import index_command, server_at_rest
from index_upkeep import cold, one_file, restart, watched
from tool_tree import queries, write_tree

if TYPE_CHECKING:
    from collections.abc import Generator

_QUERIES = 200
_CHANGES = 21
_ASKED = 20
_MANY = 20_000
_AIMED_AT = 10_000


def measure(root: Path, paths: list[str], folder: Path) -> list[Figure]:
    tools, repeat = len(paths), 3 if len(paths) > _MANY else 9
    database = folder / "index.db"
    requests = queries(_QUERIES, tools)
    step = max(1, tools // (2 * _CHANGES))
    files = (paths[::step] * _CHANGES)[: 2 * _CHANGES]
    figures = index_command(root, folder / "command.db")
    figures += cold(root, database, tools)
    figures += restart(root, database, repeat=repeat)
    figures += lexical(database, requests)
    figures += nearest(database, requests)
    figures += server_at_rest(root, database, requests[:_ASKED])
    with _restored(root, files):
        figures += one_file(root, database, files[:_CHANGES])
        figures += watched(root, database, files[_CHANGES:])
    return figures


@contextmanager
def _restored(root: Path, paths: list[str]) -> Generator[None]:
    texts = {path: (root / path).read_bytes() for path in paths}
    try:
        yield
    finally:
        for path, text in texts.items():
            (root / path).write_bytes(text)


def _tree(root: Path, tools: int) -> list[str]:
    if not root.exists():
        return write_tree(root, tools)
    files = (path for path in root.rglob("*.py") if path.name != "__init__.py")
    return sorted(path.relative_to(root).as_posix() for path in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--sizes", default="100,1000,10000", help="numbers of tools, separated by commas"
    )
    parser.add_argument("--trees", type=Path, help="keep the generated trees in this folder")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    results: dict[int, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="index-bench-") as temporary:
        for tools in map(int, options.sizes.split(",")):
            folder = Path(temporary, str(tools))
            folder.mkdir()
            root = (options.trees or folder) / f"tree-{tools}"
            results[tools] = measure(root, _tree(root, tools), folder)
            title = f"{tools:,} tools, Python {sys.version.split()[0]}"
            if tools != _AIMED_AT:
                results[tools] = [replace(figure, aim=None) for figure in results[tools]]
            print(table(title, results[tools]), end="\n\n", flush=True)
    if len(results) > 1:
        print(overview(results), growth(results), sep="\n\n")
    if options.json:
        shown = {str(size): [asdict(f) for f in figures] for size, figures in results.items()}
        options.json.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
