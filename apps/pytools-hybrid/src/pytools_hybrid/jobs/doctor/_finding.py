"""What a check says."""

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
        remedy: The command that mends it, or what else to do; None where there is nothing to do.
    """

    status: Status
    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Something that is looked at.

    Attributes:
        name: What it is called.
        look: Looks; whatever it raises is a failure of the check.
        seconds: How long that may take.
    """

    name: str
    look: Callable[[], Verdict]
    seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict of one check.

    Attributes:
        check: What the check is called.
        status: How it went.
        message: What was found.
        remedy: What mends it.
        seconds: How long the check took.
        is_overdue: Whether it took too long, and may still be at it.
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
