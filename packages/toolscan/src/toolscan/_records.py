"""The values that a scan returns: records, issues, stamps."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolscan._layout import ToolId


RECORD_VERSION = 4
"""Incremented when the same bytes give a different record than before, which includes a new
`TEXT_VERSION`: what was stored must then be read again."""


class Reason(StrEnum):
    """Why a path gave no record: stable codes, for which `ScanIssue.detail` is the sentence."""

    # The name
    PRIVATE = "private"
    INVALID_ID = "invalid_id"
    NAME_ENCODING = "name_encoding"
    DUPLICATE_ID = "duplicate_id"
    NO_LAYOUT = "no_layout"
    OVER_LIMIT = "over_limit"
    """There are more tools than a limit allows; used by callers of a scan only."""
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


class Rejection(Exception):  # noqa: N818  (not an error of the caller: scan turns it into an issue)
    """Raised inside the package where a file turns out to hold no usable tool."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class FileStamp(NamedTuple):
    """A file's `os.stat` values; equal stamps mean that the file was not touched in between."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a tool.

    Attributes:
        name: Name in Python.
        annotation: The annotation as written, "" where there is none.
        required: Whether a call must give it.
        default: Source text of the default; `None` where there is none.
        description: What it means, "" where nothing says so.
        alias: Name in data, where it differs from the name in Python.
    """

    name: str
    annotation: str
    required: bool
    default: str | None = None
    description: str = ""
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """All that is known about one tool from the text of its module.

    Attributes:
        id: Identity, from the path, and from the function where a file holds several tools.
        path: Posix path relative to the scanned root.
        entrypoint: The function an agent calls.
        signature: The `def` line of the entry point, on one line.
        summary: First sentence of the description, on one line.
        description: The cleaned docstring; that of `run_parsed`, followed by that of `run` if they
            differ; use cases declared elsewhere at its end.
        parameters: What the entry point takes; for `params: Params`, the fields of `Params`.
        returns: The return annotation as written, "" where there is none.
        tags: From `__tags__` or a `Tags:` section.
        use_cases: From `__use_cases__` or a `Use cases:` section.
        is_async: Whether the entry point is an `async def`.
        file_hash: SHA-256 of the file's bytes.
        text_hash: SHA-256 of what is embedded, with its template's version.
        stamp: The file's stamp, or `None` where the file changed so shortly before it was read
            that a later edit could carry the same stamp.
        params_class: Name of the class whose fields the parameters are, "" where they are the
            function's own.
        definitions: The module's top-level statements without function bodies; the schemas and
            the stub are built from it when they are asked for.
    """

    id: ToolId
    path: str
    entrypoint: str
    signature: str
    summary: str
    description: str
    parameters: tuple[Parameter, ...]
    returns: str
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    is_async: bool
    file_hash: str
    text_hash: str
    stamp: FileStamp | None
    params_class: str = ""
    definitions: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanIssue:
    r"""A path that looked like a tool and gave no record.

    Attributes:
        path: Posix path relative to the root; bytes that are not UTF-8 appear as `\xNN`.
        reason: Stable code.
        detail: A sentence for a person.
    """

    path: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What a scan found.

    Attributes:
        records: The tools that were read, sorted by id.
        issues: The paths that gave no tool, sorted by path.
        unchanged: The paths whose stamp or bytes are as known, which were not parsed; and those
            whose records `found` has taken.
        touched: Those of the unchanged paths whose stamp differs from the known one, with the new
            stamp, or `None` as in a record.
        categories: `"source:category"` to the docstring of the category's `__init__.py`.
    """

    records: tuple[ToolRecord, ...] = ()
    issues: tuple[ScanIssue, ...] = ()
    unchanged: tuple[str, ...] = ()
    touched: Mapping[str, FileStamp | None] = field(default_factory=dict[str, "FileStamp | None"])
    categories: Mapping[str, str] = field(default_factory=dict[str, str])
