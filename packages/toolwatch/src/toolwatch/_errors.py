"""The errors of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ToolWatchError(Exception):
    """Base class of every error raised by toolwatch."""


class NotAFolderError(ToolWatchError):
    """The path to watch exists and is not a folder.

    Attributes:
        root: The path that was given.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(f"{root} is not a folder; watch the folder that contains it")
        self.root = root


class NoRootError(ToolWatchError):
    """No folder was given to watch."""

    def __init__(self) -> None:
        super().__init__("there is nothing to watch; give at least one folder")
