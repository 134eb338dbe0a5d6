"""The error of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolscan._records import ScanIssue


__all__ = ["ToolScanError"]


class ToolScanError(Exception):
    """What was given cannot be read; the message says why.

    For a root that is not a directory, it is also a `NotADirectoryError`; for an invalid id or
    layout, it is also a `ValueError`.

    Attributes:
        issue: Why a file has no usable tool, or why a root cannot be listed; otherwise `None`.
    """

    def __init__(self, message: str, issue: ScanIssue | None = None) -> None:
        super().__init__(message)
        self.issue = issue
