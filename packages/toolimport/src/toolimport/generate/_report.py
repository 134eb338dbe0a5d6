"""What became of each server."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal["imported", "updated", "unchanged", "failed", "disabled", "gone", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """What became of one server.

    Attributes:
        server: Its name in the file.
        category: Its folder below `mcptools`; "" where there is none.
        status: What was done. A server that is gone from the file is removed only on demand.
        tools: How many tools it has now.
        added: Modules that are new.
        changed: Modules with another content.
        removed: Modules that are gone.
        kept: Files that were left alone though they differ: somebody has edited them.
        notes: What could not be done as a tool's schema says, by the tool's name.
        failed: Why a tool was left out, by its name.
        variables: Environment variables that the tool server of mcpygen needs.
        error: Why the server failed; "" where it did not.
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
    variables: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0

    @property
    def is_fine(self) -> bool:
        """Whether nothing failed."""
        return not self.error and not self.failed

    def as_json(self) -> dict[str, Any]:
        """Return the report as a value of JSON."""
        return asdict(self) | {
            "seconds": round(self.seconds, 3),
            "notes": dict(self.notes),
            "failed": dict(self.failed),
        }
