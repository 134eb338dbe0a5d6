"""The exceptions of this package; `ToolScanError` is their base class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from toolscan._issues import ScanIssue

__all__ = [
    "InvalidLayoutError",
    "InvalidToolIdError",
    "RootNotFoundError",
    "ToolReadError",
    "ToolScanError",
]


class ToolScanError(Exception):
    """Base class of the exceptions of toolscan."""


class RootNotFoundError(ToolScanError, NotADirectoryError):
    """The root of a scan does not exist or is not a directory."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"{root!r} is not a directory: give the folder that contains the tool tree"
        )
        self.root = root

    # By default, unpickling would pass the message to `__init__` instead of these arguments.
    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.root,)


class InvalidToolIdError(ToolScanError, ValueError):
    """A text that cannot be a tool id."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"{text!r} is not a tool id: {problem}; write source:category:name")
        self.text = text
        self.problem = problem

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.text, self.problem)


class InvalidLayoutError(ToolScanError, ValueError):
    """A layout pattern that does not determine a tool's category and name."""

    def __init__(self, pattern: str, problem: str) -> None:
        advice = "write a path like 'tools/{category}/{name}.py'"
        super().__init__(f"{pattern!r} is not a layout: {problem}; {advice}")
        self.pattern = pattern
        self.problem = problem

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.pattern, self.problem)


class ToolReadError(ToolScanError):
    """A file that was to be read has no usable tool; `issue` says why."""

    def __init__(self, issue: ScanIssue) -> None:
        super().__init__(f"{issue.path}: {issue.detail}")
        self.issue = issue

    def __reduce__(self) -> tuple[type[Self], tuple[ScanIssue]]:
        return type(self), (self.issue,)
