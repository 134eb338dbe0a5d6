"""Looking up categories and tools by name."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeVar

from pytools_hybrid.errors import AmbiguousToolError, UnknownCategoryError, UnknownToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from toolindex import StoreReader, ToolEntry, ToolFilter

    from pytools_hybrid.index import Index

T = TypeVar("T")

MAX_NAME = 200
"""The maximum length of a category or tag in a filter; the usage record keeps them."""

MAX_NAMES = 100
"""The maximum number of categories, and of tags, in one filter."""

_NEAREST = 5
_LISTED = 20
_SAME_NAME = 1.0
# Ids are made from paths, and no system has longer ones.
_LONGEST_ID = 4096
# Comparing names takes time quadratic in their length.
_COMPARED_CHARACTERS = 100
# Clients show the tools of MCP servers with such a prefix.
_CLIENT_PREFIXES = ("mcp__", "mcp.")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CategoryCount:
    """A category and the number of its tools.

    Attributes:
        source: Its source, such as `mcptools` or `gentools`.
        category: Its name.
        tools: How many of its tools can be found.
    """

    source: str
    category: str
    tools: int


def categories(reader: StoreReader, policy: ToolFilter) -> tuple[CategoryCount, ...]:
    """Return the categories with tools that pass the policy, by source and name."""
    counts = reader.categories(policy)
    return tuple(
        CategoryCount(source=source, category=category, tools=tools)
        for (source, category), tools in sorted(counts.items())
    )


def find_tool(reader: StoreReader, name: str, policy: ToolFilter) -> ToolEntry:
    """Find a tool by its id or another of its names.

    Args:
        reader: The index.
        name: Its id, its name in other systems (`github__create_issue`, `github.create_issue`,
            `mcp__github__create_issue`), or its bare name if only one tool has it.
        policy: Only tools that pass it can be found.

    Raises:
        UnknownToolError: No tool has that name.
        AmbiguousToolError: Several tools have it.
    """
    if len(name) > _LONGEST_ID:
        raise UnknownToolError(name, ())
    for asked in _spellings(name):
        if len(found := _called(reader, asked, policy)) == 1:
            return found[0]
        if found:
            ids = tuple(str(entry.id) for entry in found[:_LISTED])
            raise AmbiguousToolError(name, ids)
    raise UnknownToolError(name, _nearest(reader, name, policy))


async def found_as(
    made_of: Callable[[ToolEntry], T], index: Index, name: str, policy: ToolFilter
) -> T:
    """Find a tool, as `find_tool` does, and process it in the same thread."""
    # The first scan may begin or end during the lookup.
    is_early = index.sync.is_first_look
    try:
        return await index.look(lambda reader: made_of(find_tool(reader, name, policy)))
    except UnknownToolError as error:
        if is_early or index.sync.is_first_look:
            raise UnknownToolError(name, error.candidates, is_early=True) from None
        raise


def check_categories(asked: Iterable[str], known: Collection[str]) -> None:
    """Refuse a category that does not exist, unless there are none at all."""
    for name in asked if known else ():
        if name not in known:
            nearest = nearest_first(name, known)
            listed = tuple(nearest[:_LISTED])
            raise UnknownCategoryError(name, listed, more=len(nearest) - len(listed))


def nearest_first(name: str, names: Iterable[str]) -> list[str]:
    """Sort names by their similarity to a requested one."""
    matcher = SequenceMatcher(b=name[:_COMPARED_CHARACTERS].casefold())

    def likeness(candidate: str) -> tuple[float, str]:
        matcher.set_seq1(candidate[:_COMPARED_CHARACTERS].casefold())
        return -matcher.ratio(), candidate

    return sorted(names, key=likeness)


def _spellings(name: str) -> Sequence[str]:
    bare = name.strip()
    return [bare, *(bare.removeprefix(it) for it in _CLIENT_PREFIXES if bare.startswith(it))]


def _called(reader: StoreReader, name: str, policy: ToolFilter) -> list[ToolEntry]:
    hits = reader.named(name, where=policy)
    entries = reader.entries([hit.id for hit in hits if hit.score >= _SAME_NAME])
    if (exact := entries.get(name)) is not None:
        return [exact]
    return [entries[id_] for id_ in sorted(entries)]


def _nearest(reader: StoreReader, name: str, policy: ToolFilter) -> tuple[str, ...]:
    return tuple(hit.id for hit in reader.fuzzy(name, where=policy, depth=_NEAREST))
