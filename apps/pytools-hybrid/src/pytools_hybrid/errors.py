"""The errors of the application, which a user can fix."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from toolindex import SyncReport

__all__ = [
    "AmbiguousToolError",
    "IndexNotReadyError",
    "PytoolsError",
    "RootEmptiedError",
    "RootUnreadableError",
    "SettingsError",
    "ToolArgumentsError",
    "ToolLoadError",
    "ToolRefusedError",
    "UnknownCategoryError",
    "UnknownToolError",
    "innermost",
    "refusal",
]


_SHOWN = 100
_PERMISSION = "fix its permissions (chmod, chown), or choose another path"
_REMEDIES = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "choose a writable path",
    errno.ENOSPC: "free some disk space, and run it again",
}


def innermost(error: BaseException) -> BaseException:
    """Return the first error of an exception group, however deeply groups are nested."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def refusal(error: OSError) -> str:
    """Return why the operating system refused access to a file, and what to do about it."""
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{reason}; {remedy}" if remedy else reason


class PytoolsError(Exception):
    """Root of every error raised by pytools-hybrid itself."""


class SettingsError(PytoolsError):
    """A setting is invalid; commands end with exit code 2.

    Attributes:
        setting: The flag or variable to change.
        message: What is wrong with its value.
    """

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting
        self.message = message


class RootUnreadableError(PytoolsError):
    """The tree of tools exists but cannot be listed; the index is left as it is.

    Attributes:
        root: The tree.
        report: The result of syncing the other trees, or None if there are none.
    """

    def __init__(self, root: Path, reason: str) -> None:
        super().__init__(f"{root}: {reason} Check the permissions of the folder.")
        self.root = root
        self.report: SyncReport | None = None


class RootEmptiedError(PytoolsError):
    """A tree that hosts share would lose all its tools, because this host has no files for it."""

    def __init__(self, root: Path, tree: str, tools: int) -> None:
        super().__init__(
            f"{root} has no tools, and would remove all {tools} of {tree} for every host; give the "
            "right folder, or delete the tree with pytools-hybrid database drop"
        )


class IndexNotReadyError(PytoolsError):
    """The index is still being opened (another process may be making it) or being filled."""

    def __init__(
        self, message: str = "the index is still being opened: try again in a moment"
    ) -> None:
        super().__init__(message)


class UnknownCategoryError(PytoolsError):
    """The category does not exist.

    Attributes:
        name: The name that was requested.
        candidates: The existing categories, the most similar first.
    """

    def __init__(self, name: str, candidates: tuple[str, ...], *, more: int) -> None:
        rest = f", and {more} more" if more else ""
        listed = ", ".join(_plain(candidate) for candidate in candidates)
        super().__init__(f"there is no category {_shown(name)}; there are {listed}{rest}")
        self.name = name
        self.candidates = candidates


class UnknownToolError(PytoolsError):
    """No tool has that name.

    Attributes:
        name: The name that was requested.
        candidates: Ids of the tools with the most similar names, best first.
        is_early: Whether some files have not been scanned yet, so that the tool may still be found.
    """

    def __init__(self, name: str, candidates: tuple[str, ...], *, is_early: bool = False) -> None:
        self.name = name
        self.candidates = candidates
        self.is_early = is_early
        if is_early:
            super().__init__(
                f"Unknown tool {_shown(name)}. Indexing is still running; try again in a moment."
            )
            return
        similar = f" Similar: {', '.join(candidates)}" if candidates else ""
        super().__init__(f"Unknown tool {_shown(name)}.{similar}")


class AmbiguousToolError(PytoolsError):
    """Several tools have that name.

    Attributes:
        name: The name that was requested.
        candidates: Their ids.
    """

    def __init__(self, name: str, candidates: tuple[str, ...]) -> None:
        super().__init__(
            f"several tools are called {_shown(name)}: give the id, one of {', '.join(candidates)}"
        )
        self.name = name
        self.candidates = candidates


class ToolLoadError(PytoolsError):
    """A tool's module cannot be imported, so the tool cannot be called.

    Attributes:
        tool_id: The tool.
    """

    def __init__(self, tool_id: str, reason: str) -> None:
        super().__init__(f"{tool_id} cannot be called: {reason}")
        self.tool_id = tool_id


class ToolRefusedError(PytoolsError):
    """A tool was not called: calling it is not allowed here, or the arguments are invalid.

    Attributes:
        tool_id: The tool.
        reason: Why, and what would work instead.
    """

    def __init__(self, tool_id: str, reason: str) -> None:
        super().__init__(f"{tool_id} was not called: {reason}")
        self.tool_id = tool_id
        self.reason = reason


class ToolArgumentsError(PytoolsError):
    """A tool was not called, because the arguments do not fit its schema.

    Attributes:
        tool_id: The tool.
        problems: What is wrong, in pydantic's words.
    """

    def __init__(self, tool_id: str, problems: Sequence[Mapping[str, Any]]) -> None:
        told = "; ".join(
            f"{'.'.join(map(str, it['loc'])) or 'arguments'}: {it['msg']}" for it in problems
        )
        super().__init__(f"{tool_id}: {told}")
        self.tool_id = tool_id
        self.problems: tuple[Mapping[str, Any], ...] = tuple(problems)


def _plain(name: str) -> str:
    """Return the untrusted name of a folder, on one line."""
    line = "".join(char if char.isprintable() else " " for char in name)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _shown(name: str) -> str:
    """Quote a caller's text on one line, cut to the length of a name."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")
