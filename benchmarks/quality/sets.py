"""The benchmark's data: tools as in an index, and queries with their right tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolscan import input_schema, scan

__all__ = ["Collection", "Names", "Query", "Tool", "build", "find_sets", "read_tree"]

Names = Literal["plain", "qualified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as all methods see it.

    Attributes:
        id: Its id, which answers contain.
        category: The server that has it.
        name: Its name, perhaps with the category before it.
        description: The whole docstring.
        parameters: The JSON Schema of its parameters.
    """

    id: str
    category: str
    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request with the tools that answer it.

    Attributes:
        id: Its id within its collection.
        text: The request.
        gold: The ids of the right tools, including those that cannot be in an index.
        kind: The kind of request, "" if unknown.
        split: The half that it belongs to, "" if there are none.
    """

    id: str
    text: str
    gold: frozenset[str]
    kind: str
    split: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A tree of tools with judged queries.

    Attributes:
        name: Its name, the heading of its table.
        tree: The folder of the tools' modules.
        tools: All tools in an index of the tree.
        queries: All queries.
    """

    name: str
    tree: Path
    tools: tuple[Tool, ...]
    queries: tuple[Query, ...]


def find_sets(folder: Path) -> list[Path]:
    """List the sets in a folder, by name.

    Raises:
        FileNotFoundError: It contains none.
    """
    found = sorted(path.parent for path in folder.glob("*/tools.jsonl"))
    sets = [path for path in found if (path / "queries.jsonl").is_file()]
    if not sets:
        raise FileNotFoundError(
            f"{folder} holds no set: a set is a folder with tools.jsonl and queries.jsonl"
        )
    return sets


def build(source: Path, script: Path, target: Path) -> tuple[Path, Path]:
    """Create a set's tree and queries with `script SET TARGET`.

    Raises:
        subprocess.CalledProcessError: The script failed.
    """
    command = [sys.executable, str(script), str(source), str(target)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return target / "tree", target / "queries.jsonl"


def read_tree(
    name: str,
    tree: Path,
    queries: Path,
    *,
    split: str | None,
    names: Names,
    origin: Path | None = None,
) -> Collection:
    """Read a tree of tools and its queries.

    Args:
        name: The collection's name.
        tree: The tree.
        queries: A file with a JSON object per line: `query`, `gold`, and optionally `id`, `kind`
            and `split`.
        split: Use only the queries of that split.
        names: Whether methods see the category before a tool's name.
        origin: A file with the splits by query id, if `queries` does not have them.

    Raises:
        ValueError: No query is left, or two have the same id.
    """
    tools = tuple(
        Tool(
            id=str(record.id),
            category=record.id.category,
            name=record.id.name if names == "plain" else f"{record.id.category}_{record.id.name}",
            description=record.description,
            parameters=input_schema(record),
        )
        for record in scan(tree).records
    )
    splits = {} if origin is None else {query.id: query.split for query in _read(origin, {})}
    asked = [query for query in _read(queries, splits) if split in (None, query.split)]
    judged = tuple(query for query in asked if query.gold)
    if not judged:
        raise ValueError(f"{queries} has no query with a right tool in split {split or 'all'}")
    if len(judged) < len(asked):
        print(f"{name}: {len(asked) - len(judged)} queries without gold left out", file=sys.stderr)
    if len({query.id for query in judged}) < len(judged):
        raise ValueError(f"{queries} has two queries with the same id; ids must be unique")
    return Collection(name=name, tree=tree, tools=tools, queries=judged)


def _read(path: Path, splits: Mapping[str, str]) -> Iterator[Query]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        id_ = str(row.get("id", number))
        yield Query(
            id=id_,
            text=row["query"],
            gold=frozenset(row.get("gold") or ()),
            kind=row.get("kind") or "",
            split=row.get("split") or splits.get(id_, ""),
        )
