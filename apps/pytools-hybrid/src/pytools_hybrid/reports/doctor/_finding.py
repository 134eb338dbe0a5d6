"""The results of checks, and the commands that fix what they find."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytools_hybrid.settings import Roots, Settings


class Status(StrEnum):
    """The status of a check."""

    OK = "ok"
    WARNING = "warning"
    """Searches work, but could be better or more up to date."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check.

    Attributes:
        remedy: The command that fixes it, or another remedy; None if nothing is needed.
    """

    status: Status
    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check.

    Attributes:
        look: Runs the check; an exception counts as a failure.
        seconds: The time limit.
        is_quick: Whether it takes milliseconds, without network requests.
    """

    name: str
    look: Callable[[], Verdict]
    seconds: float = 10.0
    is_quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict of one check.

    Attributes:
        is_overdue: Whether it took too long, and may still be running.
    """

    check: str
    status: Status
    message: str
    remedy: str | None
    seconds: float
    is_overdue: bool = False


def fine(message: str) -> Verdict:
    """Return a verdict that everything works."""
    return Verdict(Status.OK, message)


def warning(message: str, remedy: str | None = None) -> Verdict:
    """Return a verdict that something could be better."""
    return Verdict(Status.WARNING, message, remedy)


def failed(message: str, remedy: str | None = None) -> Verdict:
    """Return a verdict that something does not work."""
    return Verdict(Status.FAILED, message, remedy)


class Commands:
    """Commands with the flags that select what was checked."""

    def __init__(self, settings: Settings, roots: Roots) -> None:
        self._settings = settings
        self._roots = roots

    def index(self) -> str:
        """Return the command that brings the index up to date."""
        flags = [part for root in self._roots for part in ("--root", str(root))]
        if self._settings.database is not None:
            flags += ["--database", str(self._settings.database)]
        # The command uses the same variables and settings file, so only flags are repeated.
        if self._settings.origins.get("embedding_model", "").startswith("--"):
            flags += ["--embedding-model", self._settings.embedding_model]
        return shlex.join(["pytools-hybrid", "index", *flags])
