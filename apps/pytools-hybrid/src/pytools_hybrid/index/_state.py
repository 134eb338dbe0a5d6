"""The state of an index, as several answers tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolindex import Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """What an index holds at one moment.

    Attributes:
        generation: The number of the state; it moves with every change.
        coverage: How many tools there are, and how many of them the model has given vectors.
    """

    generation: int
    coverage: Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How far an index is that does not hold the whole tree yet.

    Attributes:
        read: How many files have been looked at.
        total: How many there were to look at.
    """

    read: int
    total: int

    def __str__(self) -> str:
        read = min(self.read, self.total)
        return f"{read:,} of about {self.total:,} files read so far"
