"""The training data: collections of tools, and requests with the tools that answer them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolscan import ToolId, scan

__all__ = [
    "TRAINING",
    "Collection",
    "Pool",
    "is_held",
    "read_lines",
    "read_tree",
    "training_pool",
]

TRAINING = Path(__file__).parents[1] / "training"
_TENTHS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Tools that are searched together, and requests.

    Attributes:
        name: Its name in the output.
        tools: The text of each tool, as an index embeds it.
        requests: The texts of the requests.
        right: For each request, the positions of the tools that answer it.
    """

    name: str
    tools: tuple[str, ...]
    requests: tuple[str, ...]
    right: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Our own tools and requests.

    Attributes:
        learned: A collection for each file.
        held: The categories that are never used for training, in one collection.
    """

    learned: tuple[Collection, ...]
    held: Collection


def training_pool(folder: Path = TRAINING, *, hold: bool = True) -> Pool:
    """Read the tools and requests of a folder.

    Args:
        folder: The folder with `tools_X.jsonl`, tools and their requests, and `compound_X.jsonl`,
            requests that need several of those tools.
        hold: Whether to hold back a tenth of the categories.
    """
    files = sorted(folder.glob("tools_*.jsonl"))
    learned: list[Collection] = []
    held: list[Collection] = []
    for file in files:
        tools = read_lines(file)
        compounds = read_lines(file.with_name(file.name.replace("tools_", "compound_")))
        for apart, into in ((False, learned), (True, held)):
            kept = [tool for tool in tools if (hold and is_held(tool["category"])) == apart]
            if kept:
                into.append(_own(f"own {file.stem[6:]}", kept, compounds))
    return Pool(learned=tuple(learned), held=_together("own, held back", held))


def read_tree(root: Path, queries: Path) -> Collection:
    """Read a tree of tools and its queries, JSON lines with `query` and `gold`.

    Queries whose `split` is `test` are left out: they are never used for training.
    """
    records = sorted(scan(root).records, key=lambda record: str(record.id))
    place = {str(record.id): row for row, record in enumerate(records)}
    texts = [
        r.id.embedding_text(r.description, (p.alias or p.name for p in r.parameters), tags=r.tags)
        for r in records
    ]
    judged = [
        (line["query"], right)
        for line in read_lines(queries)
        if line.get("split") != "test"
        and (right := tuple(place[gold] for gold in line["gold"] if gold in place))
    ]
    return _collection(str(root), texts, judged)


def _own(
    name: str, tools: Sequence[dict[str, Any]], compounds: Iterable[dict[str, Any]]
) -> Collection:
    place = {(tool["category"], tool["name"]): row for row, tool in enumerate(tools)}
    texts = [
        _tool_id(tool["category"], tool["name"]).embedding_text(
            tool["description"], [parameter["name"] for parameter in tool["parameters"]]
        )
        for tool in tools
    ]
    judged: list[tuple[str, tuple[int, ...]]] = [
        (query, (row,)) for row, tool in enumerate(tools) for query in tool["queries"]
    ]
    for compound in compounds:
        right = [place.get((category, name)) for category, name in compound["gold"]]
        # A request some of whose tools are held back is not used at all.
        if None not in right:
            judged.append((compound["query"], tuple(row for row in right if row is not None)))
    return _collection(name, texts, judged)


def _collection(
    name: str, texts: Iterable[str], judged: Iterable[tuple[str, tuple[int, ...]]]
) -> Collection:
    requests, right = zip(*judged, strict=True)
    return Collection(name=name, tools=tuple(texts), requests=requests, right=right)


def _together(name: str, parts: Sequence[Collection]) -> Collection:
    tools: list[str] = []
    judged: list[tuple[str, tuple[int, ...]]] = []
    for part in parts:
        start = len(tools)
        tools += part.tools
        judged += (
            (request, tuple(start + row for row in rows))
            for request, rows in zip(part.requests, part.right, strict=True)
        )
    return Collection(
        name=name,
        tools=tuple(tools),
        requests=tuple(request for request, _ in judged),
        right=tuple(rows for _, rows in judged),
    )


def is_held(category: str) -> bool:
    """Return whether a category is never used for training."""
    return int(hashlib.sha256(category.encode()).hexdigest(), 16) % _TENTHS == 0


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the JSON object of each line; none if there is no file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def _tool_id(category: str, name: str) -> ToolId:
    # Some names of our tools are not valid file names.
    words = (part.replace(":", " ").replace("/", " ") for part in (category, name))
    return ToolId(source="mcptools", **dict(zip(("category", "name"), words, strict=True)))
