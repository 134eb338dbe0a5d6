"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Status(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    """Searches work, though not as well or as fresh as they could."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Attributes:
        status: How it went.
        message: What was found, in a sentence.
        remedy: The command that fixes it, or what else to do; None if nothing is needed.
    """

    status: Status
    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check.

    Attributes:
        name: Its name.
        look: Looks; whatever it raises is a failure of the check.
        seconds: How long that may take.
        is_quick: Whether it takes some milliseconds, and asks nobody on a network.
    """

    name: str
    look: Callable[[], Verdict]
    seconds: float = 10.0
    is_quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict of one check.

    Attributes:
        check: The check's name.
        status: How it went.
        message: What was found.
        remedy: What fixes it.
        seconds: How long the check took.
        is_overdue: Whether it took too long, and may still be running.
    """

    check: str
    status: Status
    message: str
    remedy: str | None
    seconds: float
    is_overdue: bool = False


def fine(message: str) -> Verdict:
    """Report that all is well."""
    return Verdict(Status.OK, message)


def warning(message: str, remedy: str | None = None) -> Verdict:
    """Return what could be better."""
    return Verdict(Status.WARNING, message, remedy)


def failed(message: str, remedy: str | None = None) -> Verdict:
    """Return what does not work."""
    return Verdict(Status.FAILED, message, remedy)
