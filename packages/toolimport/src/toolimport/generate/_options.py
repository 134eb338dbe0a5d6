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
        only: Names of servers; all if empty.
        include: Patterns of tools; all if empty.
        exclude: Patterns of tools to leave out.
        runtime: What calls the tools: this package, or mcpygen's tool server.
        seconds: The time limit for listing and generating a server's tools, not counting the time
            for loading the generator once and for other servers' tools.
        prune: Remove packages of servers that are no longer in the file.
        force: Also overwrite and remove files that were not generated from this file.
    """

    only: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    runtime: Runtime = "pytools"
    seconds: float = 60.0
    prune: bool = False
    force: bool = False

    def takes(self, category: str, tool: str, module: str) -> bool:
        """Return whether a tool is wanted, by its name, its module's name or its id."""
        names = (tool, module, f"mcptools:{category}:{module}")

        def is_one(patterns: Iterable[str]) -> bool:
            return any(fnmatchcase(name, it) for it in patterns for name in names)

        return (not self.include or is_one(self.include)) and not is_one(self.exclude)
