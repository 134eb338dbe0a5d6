"""The batches that a watch yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """The places below one root to look at again.

    Attributes:
        root: The root, as it was given, made absolute; links in it are not resolved.
        paths: Files and folders below the root that changed, appeared or disappeared, relative to
            it. A folder stands for everything in it.
        rescan: Whether anything below the root may have changed; `paths` is then empty.
        polling: Whether the root is polled, because the system does not report its changes.
    """

    root: Path
    paths: frozenset[PurePosixPath] = frozenset()
    rescan: bool = False
    polling: bool = False
