"""Browsing tools by category, without an index, as an alternative to searching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, Field
from toolscan import ToolScanError, find_tools

from pytools_hybrid.errors import RootUnreadableError
from pytools_hybrid.settings import Roots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from toolindex import ToolFilter
    from toolscan import ToolId

    from pytools_hybrid.settings import RootsLike


class BySource(BaseModel, extra="allow"):
    """Names of categories, or source files of tools, by the tools' source."""

    gentools: list[str] = Field(description="Written by agents")
    mcptools: list[str] = Field(description="Generated from MCP servers")
    # Of other layouts; pydantic documents this override.
    __pydantic_extra__: dict[str, list[str]] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    @classmethod
    def of(cls, found: Mapping[str, Iterable[str]]) -> Self:
        """Return what was found, by source."""
        lists = {source: list(found[source]) for source in sorted(found)}
        return cls.model_validate({"gentools": [], "mcptools": []} | lists)


class ToolBrowser:
    """Lists trees by the names of their files; each call reads the disk.

    No file is opened, so a listed file may turn out not to be a tool. A tree that does not exist
    yet has no tools. If several trees have the same tool, the first tree's is listed.

    Args:
        root: The tree, or several; paths begin with them as given here.
        policy: A filter by id patterns; only tools that pass it are listed, and only categories
            with such tools.
    """

    def __init__(self, root: RootsLike, policy: ToolFilter, *, outside_links: bool = False) -> None:
        self._roots = Roots.of(root)
        self._policy = policy
        self._outside_links = outside_links

    def categories(self) -> BySource:
        """List the categories, by name."""
        found: dict[str, dict[str, None]] = {}
        for tool, _ in self._found():  # in the order of their ids
            found.setdefault(tool.source, {})[tool.category] = None
        return BySource.of(found)

    def tools(self, categories: str | Sequence[str]) -> dict[str, BySource]:
        """List the source files of categories, in the order of the tools' names.

        Args:
            categories: One or several names. Unknown ones get empty lists: names are compared with
                existing ones, and never become part of a path.
        """
        names = [categories] if isinstance(categories, str) else categories
        listed: dict[str, dict[str, dict[str, None]]] = {name: {} for name in names}
        for tool, path in self._found():
            if tool.category in listed:
                # A file may contain several tools.
                files = listed[tool.category].setdefault(tool.source, {})
                files[self._roots.display_path(path)] = None
        return {name: BySource.of(found) for name, found in listed.items()}

    def unmatched(self, patterns: Iterable[str]) -> frozenset[str]:
        """Return the patterns of ids that match no tool, after one scan."""
        from toolindex import ToolFilter

        ids = [str(tool) for tool, _ in self._found()]
        filters = {pattern: ToolFilter(include=(pattern,)) for pattern in patterns}
        return frozenset(it for it, where in filters.items() if not any(map(where.passes_id, ids)))

    def _found(self) -> Iterator[tuple[ToolId, str]]:
        found: dict[ToolId, str] = {}
        for number, root in enumerate(self._roots):
            for tool, path in self._below(root).items():
                found.setdefault(tool, self._roots.stored_path(number, path))
        for tool, path in sorted(found.items()):
            if self._policy.passes_id(str(tool)):
                yield tool, path

    def _below(self, root: Path) -> dict[ToolId, str]:
        try:
            return find_tools(root, layouts=self._roots.layouts, outside_links=self._outside_links)
        except NotADirectoryError:
            return {}
        except ToolScanError as error:
            detail = error.issue.detail if error.issue else str(error)
            raise RootUnreadableError(root, detail) from error
