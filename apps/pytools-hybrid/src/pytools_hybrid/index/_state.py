"""The state of an index, as reported in several answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolindex import Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """The content of an index at one moment.

    Attributes:
        generation: The number of the state; it moves with every change.
        coverage: How many tools there are, and how many of them the model has given vectors.
    """

    generation: int
    coverage: Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """The progress of the first indexing of a tree.

    Attributes:
        read: The number of files scanned so far.
        total: The number of files to scan.
    """

    read: int
    total: int

    def __str__(self) -> str:
        read = min(self.read, self.total)
        return f"{read:,} of about {self.total:,} files read so far"
