"""What to import, and how."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolimport.generate._modules import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What to import, and how.

    Attributes:
        only: Names of servers; all where there are none.
        include: Patterns of tools; all where there are none.
        exclude: Patterns of tools that are left out.
        runtime: What calls the tools: this package, or the tool server of mcpygen.
        seconds: How long listing a server's tools and generating them may take, not counting
            the time that the generator takes to load, once, and that other servers' tools take.
        prune: Remove the packages of servers that are gone from the file.
        force: Overwrite and remove also what was not generated from this file.
    """

    only: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    runtime: Runtime = "pytools"
    seconds: float = 60.0
    prune: bool = False
    force: bool = False

    def takes(self, category: str, tool: str, module: str) -> bool:
        """Return whether a tool is wanted, by its name, its module's, or its id."""
        names = (tool, module, f"mcptools:{category}:{module}")

        def is_one(patterns: Iterable[str]) -> bool:
            return any(fnmatchcase(name, it) for it in patterns for name in names)

        return (not self.include or is_one(self.include)) and not is_one(self.exclude)
