"""The result of an import for each server."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal[
    "imported", "updated", "unchanged", "failed", "disabled", "skipped", "gone", "removed"
]


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
    status: Status
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
        return asdict(self) | {
            "seconds": round(self.seconds, 3),
            "notes": dict(self.notes),
            "failed": dict(self.failed),
        }
