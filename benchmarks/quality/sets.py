"""What is searched and asked: tools as an index holds them, and queries with their right tools."""

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
    """A tool as every method is given it.

    Attributes:
        id: The answer that is asked for.
        category: The server that it is of.
        name: Its name, or with the category before it.
        description: The whole docstring.
        parameters: The JSON Schema of what it takes.
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
        id: Names it within its collection.
        text: The request.
        gold: Ids of the right tools; those that no index can hold count too.
        kind: What sort of request it is, "" where nobody has said.
        split: The half that it belongs to, "" where there are none.
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
        name: Heads its table.
        tree: Where the tools' modules are.
        tools: All that an index of the tree holds.
        queries: All that are asked.
    """

    name: str
    tree: Path
    tools: tuple[Tool, ...]
    queries: tuple[Query, ...]


def find_sets(folder: Path) -> list[Path]:
    """List the sets in a folder, by name.

    Raises:
        FileNotFoundError: It holds none.
    """
    found = sorted(path.parent for path in folder.glob("*/tools.jsonl"))
    sets = [path for path in found if (path / "queries.jsonl").is_file()]
    if not sets:
        raise FileNotFoundError(
            f"{folder} holds no set: a set is a folder with tools.jsonl and queries.jsonl"
        )
    return sets


def build(source: Path, script: Path, target: Path) -> tuple[Path, Path]:
    """Make a set's tree and queries with `script SET TARGET`.

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
    """Read a tree of tools and the queries to it.

    Args:
        name: The collection's name.
        tree: The tree.
        queries: A JSON object a line: `query` and `gold`; `id`, `kind` and `split` if it likes.
        split: Ask only the queries of that split.
        names: Whether methods see the category before a tool's name.
        origin: Queries with the same ids that say the splits, if `queries` does not.

    Raises:
        ValueError: No query is left to ask, or two have the same id.
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
        raise ValueError(f"{queries} has two queries of one id; give each its own")
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
