"""The values that a scan returns: records, stamps, the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolscan._issues import ScanIssue
    from toolscan._layout import ToolId


RECORD_VERSION = 5
"""Incremented when the same file yields a different record than before, also by a new
`TEXT_VERSION`: stored records must then be read again."""


class FileStamp(NamedTuple):
    """A file's `os.stat` values; equal stamps mean that the file has not been changed."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a tool.

    Attributes:
        name: Name in Python.
        annotation: The annotation as written; "" if there is none.
        required: Whether a call must include it.
        default: The source of the default; `None` if there is none.
        description: What it means; "" if it is not described.
        alias: Name in data, if that differs from the name in Python.
    """

    name: str
    annotation: str
    required: bool
    default: str | None = None
    description: str = ""
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """Everything known about a tool from the text of its module.

    Attributes:
        id: Its id, from the path, and from the function if the file contains several tools.
        path: Posix path relative to the scanned root.
        entrypoint: The function an agent calls.
        signature: The `def` line of the entry point, on one line.
        summary: First sentence of the description, on one line.
        description: The cleaned docstring: that of `run_parsed`, followed by that of `run` if they
            differ, and by use cases that are declared elsewhere.
        parameters: The entry point's parameters; for `params: Params`, the fields of `Params`.
        returns: The return annotation as written; "" if there is none.
        tags: From `__tags__` or a `Tags:` section.
        use_cases: From `__use_cases__` or a `Use cases:` section.
        is_async: Whether the entry point is an `async def`.
        file_hash: SHA-256 of the file's bytes.
        text_hash: SHA-256 of the embedded text and its template's version.
        stamp: The file's stamp; `None` if the file changed so shortly before it was read that a
            later edit could have the same stamp.
        params_class: The class whose fields are the parameters; "" if they are the function's own.
        definitions: The module's top-level statements without function bodies, from which the
            schemas and the stub are built on demand.
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
class ScanReport:
    """The result of a scan.

    Attributes:
        records: The tools, sorted by id.
        issues: The paths that are not tools, sorted by path.
        unchanged: The paths that were not parsed because their stamp or bytes are known, and those
            whose records were taken by `found`.
        touched: Unchanged paths whose stamp differs from the known one, with the new stamp, or
            `None` as in a record.
        categories: The docstring of each category's `__init__.py`, by `"source:category"`.
    """

    records: tuple[ToolRecord, ...] = ()
    issues: tuple[ScanIssue, ...] = ()
    unchanged: tuple[str, ...] = ()
    touched: Mapping[str, FileStamp | None] = field(default_factory=dict[str, "FileStamp | None"])
    categories: Mapping[str, str] = field(default_factory=dict[str, str])
