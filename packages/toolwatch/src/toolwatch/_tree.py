"""What every way of following the content of a root has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import os

__all__ = [
    "MOST_NAMES",
    "Changes",
    "NotificationError",
    "RootLostError",
    "Tree",
    "identity_of",
    "join",
]

MOST_NAMES = 16
"""Under how many names one folder is followed; beyond, any change may be anywhere.

Links that lead to each other give a folder more names than there are files in the world.
"""


class Changes(NamedTuple):
    """What was found to have changed.

    Attributes:
        paths: Relative to the root, with `/`; the root itself is the empty string.
        everything: Whether anything else may have changed too.
    """

    paths: set[str]
    everything: bool = False


class RootLostError(Exception):
    """The folder that is followed is not the root any more."""


class NotificationError(Exception):
    """The system does not announce the changes below a root; the message says why."""


class Tree(Protocol):
    """Follows everything below one root, from the moment it is made.

    Attributes:
        polling: Whether this takes looking through the root at intervals.
    """

    polling: bool

    @property
    def due(self) -> float:
        """When `collect` wants to be called at the latest (`time.monotonic`)."""
        ...

    def collect(self, now: float) -> Changes:
        """Give what has changed since the last call.

        Raises:
            RootLostError: Start over, with another tree.
            NotificationError: Start over, with a tree that polls.
        """
        ...

    def close(self) -> None:
        """Give back what the system has lent."""
        ...


def join(folder: str, name: str) -> str:
    """Give the path of an entry relative to the root."""
    return f"{folder}/{name}" if folder else name


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """Give what tells one folder from another that takes its name."""
    return status.st_dev, status.st_ino
