"""Browsing tools by category, with no index: the alternative to searching for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field
from toolscan import RootNotFoundError, ToolReadError, find_tools

from pytools_hybrid.errors import RootUnreadableError
from pytools_hybrid.settings import Roots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from toolindex import ToolFilter
    from toolscan import ToolId

    from pytools_hybrid.settings import RootsLike

__all__ = ["Categories", "ToolBrowser", "Tools"]


class Categories(BaseModel):
    """The categories that have tools."""

    gentools: list[str] = Field(description="Of tools written by agents")
    mcptools: list[str] = Field(description="Of tools generated from MCP servers")


class Tools(BaseModel):
    """The tools of a category."""

    gentools: list[str] = Field(description="Source files of tools written by agents")
    mcptools: list[str] = Field(description="Source files of tools generated from MCP servers")


class ToolBrowser:
    """Lists trees by the names of their files; each call looks at the disk.

    A file that turns out to be no tool may be among them, for none is opened. A tree that does
    not exist yet has no tools, and of tools with one id that of the first tree is listed.

    Args:
        root: The tree, or several; paths begin with them as they are named here.
        policy: Of which only the patterns of ids count; a tool outside of them is not listed,
            nor is a category that has no other.
        outside_links: Whether tools are listed too that symbolic links lead to outside of their
            tree.
    """

    def __init__(self, root: RootsLike, policy: ToolFilter, *, outside_links: bool = False) -> None:
        self._roots = Roots.of(root)
        self._policy = policy
        self._outside_links = outside_links

    def categories(self) -> Categories:
        """List the categories, by name.

        Raises:
            RootUnreadableError: A tree is there and cannot be listed.
        """
        found: dict[str, set[str]] = {"gentools": set(), "mcptools": set()}
        for tool, _ in self._found():
            found[tool.source].add(tool.category)
        return Categories(gentools=sorted(found["gentools"]), mcptools=sorted(found["mcptools"]))

    def tools(self, categories: str | Sequence[str]) -> dict[str, Tools]:
        """List the source files of categories, in the order of the tools' names.

        Args:
            categories: A name or several. One that no category has gets empty lists: names are
                compared with those that exist, and never become part of a path.

        Raises:
            RootUnreadableError: A tree is there and cannot be listed.
        """
        names = [categories] if isinstance(categories, str) else categories
        listed = {name: Tools(gentools=[], mcptools=[]) for name in names}
        for tool, path in self._found():
            if tool.category in listed:
                category = listed[tool.category]
                files = category.gentools if tool.source == "gentools" else category.mcptools
                files.append(self._roots.shown(path))
        return listed

    def _found(self) -> Iterator[tuple[ToolId, str]]:
        found: dict[ToolId, str] = {}
        for number, root in enumerate(self._roots):
            for tool, path in self._below(root).items():
                found.setdefault(tool, self._roots.stored(number, path))
        for tool, path in sorted(found.items()):
            if self._policy.passes_id(str(tool)):
                yield tool, path

    def _below(self, root: Path) -> dict[ToolId, str]:
        try:
            return find_tools(root, outside_links=self._outside_links)
        except RootNotFoundError:
            return {}
        except ToolReadError as error:
            raise RootUnreadableError(root, error.issue.detail) from error
