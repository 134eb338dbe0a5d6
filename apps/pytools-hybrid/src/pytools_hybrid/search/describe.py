"""Describing a tool at a requested level of detail, from its file, without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import toolscan
from pydantic import BaseModel
from toolindex import DatabaseError, ToolIndexError
from toolrank import name_key
from toolscan.docstrings import Docstring

from pytools_hybrid.errors import AmbiguousToolError, UnknownCategoryError, UnknownToolError
from pytools_hybrid.index import SharedIndex
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pydantic import JsonValue
    from toolindex import StoreReader, ToolEntry, ToolFilter, ToolStore, ToolUsage
    from toolscan import Layout, ToolId, ToolRecord

    from pytools_hybrid.index import Index
    from pytools_hybrid.settings import Roots

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
_CACHED_SERVERS = 1024
# What separates a server from its tool in various systems.
_SIGNS = (":", ".", "/", "__")
# Clients show the tools of MCP servers with such a prefix.
_CLIENT_PREFIXES = ("mcp__", "mcp.")

_SUMMARY_CHARACTERS = 120
_OUTSIDE = (
    "its file is outside the root, behind a symbolic link: nothing more is shown unless "
    "PYTOOLS_OUTSIDE_LINKS is true"
)


class DetailLevel(StrEnum):
    """How much to say about a tool; each level includes the one before."""

    SUMMARY = "summary"
    SCHEMA = "schema"
    FULL = "full"


class ToolDescription(BaseModel):
    """A description of a tool; fields that its level of detail leaves out are None.

    Attributes:
        id: `source:category:name`.
        name: The last part of the id.
        namespace: The rest of the id: `source:category`.
        summary: The first sentence of the docstring, at most 120 characters.
        signature: The signature of the function to call.
        input_schema: The JSON Schema (2020-12) of its arguments.
        output_schema: The JSON Schema of its result; None also if that is not declared.
        required: The required parameters.
        defaults: The source text of the defaults of the other parameters.
        types: The annotations of all parameters, as written.
        description: The whole docstring.
        examples: The examples in the docstring.
        tags: The tags that the module declares.
        stub: The import line, classes and signature, enough to write a call.
        path: The source file.
        usage: Its recorded outcomes: how many, how many successes, latencies.
        notes: Why something is missing here.
    """

    id: str
    name: str
    namespace: str
    summary: str
    signature: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    required: list[str] | None = None
    defaults: dict[str, str] | None = None
    types: dict[str, str] | None = None
    description: str | None = None
    examples: list[str] | None = None
    tags: list[str] | None = None
    stub: str | None = None
    path: str | None = None
    usage: dict[str, Any] | None = None
    notes: list[str] | None = None


def describe(
    entry: ToolEntry,
    roots: Roots,
    *,
    detail: DetailLevel,
    usage: ToolUsage | None = None,
    outside_links: bool = False,
    store: ToolStore | None = None,
) -> ToolDescription:
    """Describe a tool.

    Schemas and the stub are made from the current file, or from the index if the file cannot be
    read. Of a file outside its root, only the summary is shown. `store` is that of a shared index
    whose files are on other hosts; it has their records.
    """
    source, category, name = entry.id.source, entry.id.category, entry.id.name
    described = ToolDescription(
        id=str(entry.id),
        name=name,
        namespace=f"{source}:{category}",
        summary=short(readable(entry.summary), _SUMMARY_CHARACTERS),
    )
    if detail is DetailLevel.SUMMARY:
        return described
    if store is None:
        record, problem = _read(entry, roots, outside_links=outside_links)
    else:
        record, problem = _fetched(entry, store)
    if problem == _OUTSIDE:
        return described.model_copy(update={"notes": [problem]})
    parameters = record.parameters if record else entry.parameters
    named = [(it.alias or it.name, it) for it in parameters]
    described = described.model_copy(
        update={
            "signature": readable(record.signature if record else entry.signature),
            "input_schema": _readable(toolscan.input_schema(record)) if record else None,
            "output_schema": _readable(toolscan.output_schema(record)) if record else None,
            "required": [name for name, it in named if it.required],
            "defaults": {
                name: readable(it.default) for name, it in named if it.default is not None
            },
            "types": {name: readable(it.annotation) for name, it in named if it.annotation},
            "notes": [problem] if problem else None,
        }
    )
    if detail is DetailLevel.SCHEMA:
        return described
    description = readable(record.description if record else entry.description)
    return described.model_copy(
        update={
            "description": description,
            "examples": list(Docstring(description).examples),
            "tags": list(record.tags if record else entry.tags),
            "stub": readable(toolscan.stub(record)) if record else None,
            "path": roots.display_path(entry.path) if store is None else entry.path,
            "usage": _usage(usage),
        }
    )


def short(text: str, length: int) -> str:
    """Cut a text to a length, between words if that keeps half of it, never inside a character.

    A character is what readers perceive as one, such as a flag or a letter with its accents
    (extended grapheme clusters, Unicode Standard Annex 29).
    """
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    from apsw import unicode

    end = 0
    while (after := unicode.grapheme_next_break(text, end)) < length:
        end = after
    space = text.rfind(" ", length // 2, end + 1)
    return f"{text[: space if space > 0 else end].rstrip()}…"


def _read(entry: ToolEntry, roots: Roots, *, outside_links: bool) -> tuple[ToolRecord | None, str]:
    """Read a tool's file, or say why it was not read."""
    root, path = roots.resolve(entry.path)
    try:
        record = toolscan.read_tool(
            path, root, name=entry.id.name, layouts=roots.layouts, outside_links=outside_links
        )
    except (toolscan.ToolScanError, OSError) as error:
        issue = getattr(error, "issue", None)
        if isinstance(issue, toolscan.ScanIssue) and issue.reason == "outside_root":
            return None, _OUTSIDE
        return None, f"its file cannot be read now, so this is from the index: {error}"
    return record, ""


def _fetched(entry: ToolEntry, store: ToolStore) -> tuple[ToolRecord | None, str]:
    """Return a shared index's record of a tool's file, or say why there is none."""
    try:
        if isinstance(store, SharedIndex) and (records := store.records([str(entry.id)])):
            return records[0], ""
        raise DatabaseError(store.where, f"the tool {entry.id} is gone")
    except ToolIndexError as error:
        return None, f"its source cannot be fetched now, so this is from this host's copy: {error}"


def _readable(schema: JsonValue) -> JsonValue:
    """Clean the texts of a schema that are for readers; values that a call must repeat are kept."""
    if isinstance(schema, list):
        return [_readable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: readable(value)
        if key in {"description", "title"} and isinstance(value, str)
        else _readable(value)
        for key, value in schema.items()
    }


def _usage(usage: ToolUsage | None) -> dict[str, Any]:
    if usage is None:
        return {"observations": 0}
    return {
        "observations": usage.observations,
        "successes": usage.successes,
        "success_rate": round(usage.success_rate, 3),
        "latency_p50_ms": usage.latency_p50_ms,
        "latency_p95_ms": usage.latency_p95_ms,
    }


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


def find_tool(reader: StoreReader, name: str, policy: ToolFilter, roots: Roots) -> ToolEntry:
    """Find a tool by its id, its own name, or another spelling that only one tool has.

    The own name of an imported tool is the one on its server. An own name takes precedence over
    other spellings.

    Args:
        reader: The index.
        name: Its id, its bare name, or its name in other systems (`github__create_issue`,
            `github.create_issue`, `mcp__github__create_issue`).
        policy: Only tools that pass it can be found.
        roots: The trees, which record the names of imported tools.

    Raises:
        UnknownToolError: No tool has that name.
        AmbiguousToolError: Several tools have it.
    """
    if len(name) > _LONGEST_ID:
        raise UnknownToolError(name, ())
    imported = _imported(roots)
    answers = [_called(reader, asked, policy, imported) for asked in _spellings(name)]
    owners = [own for own, _ in answers if own is not None]
    if owners:
        # For all spellings: a server's own names may have the form of a client's names for others.
        found = tuple({entry.id: entry for own in owners for entry in own}.values())
    else:
        found = next((tuple(alike) for _, alike in answers if alike), ())
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousToolError(name, tuple(str(entry.id) for entry in found[:_LISTED]))
    raise UnknownToolError(name, _nearest(reader, name, policy))


async def found_as(
    made_of: Callable[[ToolEntry], T], index: Index, name: str, policy: ToolFilter
) -> T:
    """Find a tool, as `find_tool` does, and process it in the same thread."""
    # The first scan may begin or end during the lookup.
    is_early = index.sync.is_first_scan
    try:
        return await index.read(
            lambda reader: made_of(find_tool(reader, name, policy, index.roots))
        )
    except UnknownToolError as error:
        if is_early or index.sync.is_first_scan:
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


def _spellings(name: str) -> Iterable[str]:
    bare = name.strip()
    short = (bare.removeprefix(it) for it in _CLIENT_PREFIXES if bare.startswith(it))
    return dict.fromkeys([name, bare, *short])


@dataclass(frozen=True)
class _Names:
    """The names of a tool.

    Attributes:
        id: Its id.
        server: The name of its server; empty if it is not imported.
        own: Its own name, which for an imported tool is the one on its server.
    """

    id: ToolId
    server: str
    own: str

    def matches(self, name: str) -> bool:
        """Return whether a name is exactly the tool's own, with or without its server."""
        if not name.endswith(self.own):
            return False
        before = name.removesuffix(self.own)
        servers = {self.server, self.id.category, f"{self.id.source}:{self.id.category}"}
        return not before or before in {f"{it}{sign}" for it in servers for sign in _SIGNS}

    def matches_spelling(self, key: str) -> bool:
        """Return whether the letters and digits of a name, its `name_key`, are the tool's own."""
        own = self._own_key
        if not key or not key.endswith(own):
            return False
        servers = "", self.server, self.id.category, self.id.source + self.id.category
        return key in {name_key(it) + own for it in servers}

    @cached_property
    def _own_key(self) -> str:
        return name_key(self.own)


def _imported(roots: Roots) -> dict[str, _Names]:
    """Return the names of imported tools by their paths, whether the index has them or not."""
    from toolimport.runtime import imported_servers

    found: dict[str, _Names] = {}
    for (number, root), layout in product(enumerate(roots), roots.layouts):
        folders, _, file = layout.pattern.rpartition("/")
        if file != "{name}.py":
            continue
        for it in imported_servers(root, folders.replace("{category}", "*")):
            inside = it.folder.relative_to(root).as_posix()
            names = _names_in(layout, inside, it.name, tuple(it.tools.items()))
            found |= {roots.stored_path(number, path): it for path, it in names.items()}
    return found


# Each call of a tool looks it up, and a tree may have thousands of tools.
@lru_cache(_CACHED_SERVERS)
def _names_in(
    layout: Layout, folder: str, server: str, tools: tuple[tuple[str, str], ...]
) -> Mapping[str, _Names]:
    """Return the names of one server's tools by their paths in the tree.

    `tools` has pairs of a module and the tool's name on the server.
    """
    paths = ((f"{folder}/{module}.py", own) for module, own in tools)
    return {path: _Names(id_, server, own) for path, own in paths if (id_ := layout.match(path))}


def _called(
    reader: StoreReader, name: str, policy: ToolFilter, imported: Mapping[str, _Names]
) -> tuple[list[ToolEntry] | None, list[ToolEntry]]:
    """Return the tools whose own name or id this is, and those for which it is a spelling.

    The first is None if it is no tool's own name, and empty if it is that of a hidden tool.
    """
    hits = {hit.id for hit in reader.named(name, where=policy) if hit.score >= _SAME_NAME}
    if name in hits:
        # First, because the own name of another tool may look like this id.
        return list(reader.entries([name]).values()), []
    key = name_key(name)
    owners = {str(it.id) for it in imported.values() if it.matches(name)}
    alike = {str(it.id) for it in imported.values() if it.matches_spelling(key)}
    entries = reader.entries(sorted(hits | owners | alike))
    own: list[ToolEntry] = []
    found: list[ToolEntry] = []
    for id_, entry in sorted(entries.items()):
        names = imported.get(entry.path) or _Names(entry.id, "", entry.id.name)
        is_own = names.matches(name)
        if id_ in hits or (
            (is_own or names.matches_spelling(key)) and _passes(reader, id_, policy)
        ):
            (own if is_own else found).append(entry)
    return own if own or owners else None, found


def _passes(reader: StoreReader, id_: str, policy: ToolFilter) -> bool:
    return any(hit.id == id_ for hit in reader.named(id_, where=policy))


def _nearest(reader: StoreReader, name: str, policy: ToolFilter) -> tuple[str, ...]:
    return tuple(hit.id for hit in reader.fuzzy(name, where=policy, depth=_NEAREST))
