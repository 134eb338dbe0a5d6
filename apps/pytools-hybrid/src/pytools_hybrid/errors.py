"""The errors of the application: what a user has to mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PytoolsError", "RootUnreadableError", "SettingsError"]


class PytoolsError(Exception):
    """Root of every error raised by pytools-hybrid itself."""


class SettingsError(PytoolsError):
    """A setting that cannot work; commands end with exit code 2.

    Attributes:
        setting: The flag or variable to change.
    """

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting


class RootUnreadableError(PytoolsError):
    """The tree of tools is there and cannot be listed; the index is left as it is.

    Attributes:
        root: The tree.
    """

    def __init__(self, root: Path, reason: str) -> None:
        super().__init__(f"{root}: {reason} Check the permissions of the folder.")
        self.root = root
