"""The errors of the application: what a user has to mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "AmbiguousToolError",
    "PytoolsError",
    "RootUnreadableError",
    "SettingsError",
    "UnknownToolError",
]


_SHOWN = 100


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


class UnknownToolError(PytoolsError):
    """No tool is called that.

    Attributes:
        name: What was asked for.
        candidates: Ids of the tools that are nearest to it, nearest first.
        is_early: Whether not all files have been looked at yet, so that it may be there soon.
    """

    def __init__(self, name: str, candidates: tuple[str, ...], *, is_early: bool = False) -> None:
        self.name = name
        self.candidates = candidates
        self.is_early = is_early
        if is_early:
            super().__init__(
                f"no tool is called {_shown(name)} so far; the files are still being looked at: "
                "ask again in a moment"
            )
            return
        nearest = f"; nearest: {', '.join(candidates)}" if candidates else ""
        super().__init__(f"no tool is called {_shown(name)}{nearest}; search for what it should do")


class AmbiguousToolError(PytoolsError):
    """Several tools are called that.

    Attributes:
        name: What was asked for.
        candidates: Their ids.
    """

    def __init__(self, name: str, candidates: tuple[str, ...]) -> None:
        super().__init__(
            f"several tools are called {_shown(name)}: give the id, one of {', '.join(candidates)}"
        )
        self.name = name
        self.candidates = candidates


def _shown(name: str) -> str:
    """Quote what a caller wrote, on one line and not longer than a name is."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")
