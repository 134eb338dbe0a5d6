"""Why a path is not a tool: reasons, and issues in a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why a path has no record: stable codes, which `ScanIssue.detail` explains."""

    # The name
    PRIVATE = "private"
    INVALID_ID = "invalid_id"
    NAME_ENCODING = "name_encoding"
    DUPLICATE_ID = "duplicate_id"
    NO_LAYOUT = "no_layout"
    # The file system
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"
    BROKEN_LINK = "broken_link"
    SYMLINK_LOOP = "symlink_loop"
    OUTSIDE_ROOT = "outside_root"
    # The bytes
    TOO_LARGE = "too_large"
    EMPTY = "empty"
    NUL_BYTES = "nul_bytes"
    ENCODING = "encoding"
    # The source
    SYNTAX_ERROR = "syntax_error"
    TOO_DEEP = "too_deep"
    NO_ENTRYPOINT = "no_entrypoint"
    NO_DOCSTRING = "no_docstring"
    SURROGATE = "surrogate"


class Rejection(Exception):  # noqa: N818  (not a caller's error: a scan turns it into an issue)
    """A file has no usable tool; only used inside the package."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanIssue:
    r"""A path that looks like a tool, but is none.

    Attributes:
        path: Posix path relative to the root; bytes that are not UTF-8 appear as `\xNN`.
        reason: A stable code.
        detail: The reason as a sentence.
        text: The beginning of its docstrings, as far as they can be read in a file that cannot be
            parsed.
    """

    path: str
    reason: Reason
    detail: str
    text: str = field(default="", compare=False, repr=False)
