"""What to import, and what was imported."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

Runtime = Literal["pytools", "mcpygen"]
Stage = Literal["waiting", "connecting", "generating"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """The result of an import for one server.

    Attributes:
        server: Its name in the file.
        category: Its folder in `mcptools`; empty if there is none.
        status: What was done. A server that is no longer in the file is only removed on demand.
        tools: The number of tools that it has now.
        added: New modules.
        changed: Modules with new content.
        removed: Removed modules.
        kept: Edited files, which were kept.
        notes: What differs from a tool's schema, by the tool's name.
        failed: Why tools were left out, by name.
        switched_off: The tools that the file switches off; they are not imported.
        warnings: What may be wrong with its definition, or why it is skipped.
        variables: The environment variables that mcpygen's tool server needs.
        error: Why the server failed; empty if it did not.
        seconds: How long it took.
    """

    server: str
    category: str = ""
    status: Literal[
        "imported", "updated", "unchanged", "failed", "disabled", "skipped", "gone", "removed"
    ]
    tools: int = 0
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    switched_off: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0

    @property
    def is_fine(self) -> bool:
        """Whether nothing failed."""
        return not self.error and not self.failed

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON value."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


async def import_servers(
    file: Path,
    root: Path,
    options: ImportOptions,
    *,
    on_stage: Callable[[str, Stage], object] = lambda _server, _stage: None,
    on_done: Callable[[ServerReport], Awaitable[object]] | None = None,
    problem_of: Callable[[str], str] = lambda _source: "",
) -> tuple[ServerReport, ...]:
    """Import the servers in a file, a few at a time; a failure does not stop the others.

    Args:
        file: The file.
        root: The tree of tools, created if it does not exist.
        options: What to import, and how.
        on_stage: Called with the current step for each server.
        on_done: Called for each server when it is finished, one at a time. An error that it raises
            stops no server, and is raised when all are finished.
        problem_of: Returns why the source of a module cannot be used, so that its tool is left out
            for that reason; empty if it can be used.

    Returns:
        A report for each server in the file's order, followed by servers no longer in it.

    Raises:
        ToolImportError: The file cannot be used, an option is invalid, the root cannot be a folder,
            or the extra `generate` is not installed.
        OSError: The tree cannot be written.
    """
    # Imported here, because generated modules only need the runtime.
    from toolimport._generate._importer import Importer

    return await Importer(root / "mcptools", options, on_stage, on_done, problem_of).run(file)
