"""The values that a scan returns: records, issues, the report; and what is made of a record."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from toolscan.errors import ToolScanError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolscan._layout import ToolId

Reason = Literal[
    # The name
    "private",
    "invalid_id",
    "name_encoding",
    "duplicate_id",
    "no_layout",
    # The file system
    "not_a_file",
    "unreadable",
    "vanished",
    "broken_link",
    "symlink_loop",
    "outside_root",
    # The bytes
    "too_large",
    "empty",
    "nul_bytes",
    "encoding",
    # The source
    "syntax_error",
    "too_deep",
    "no_entrypoint",
    "no_docstring",
    "surrogate",
]
"""Why a path has no record: stable codes, which `ScanIssue.detail` explains."""

Stamp = tuple[int, int, int, int]
"""A file's size, modification time, change time and inode; if equal, the file is unchanged."""


class Rejection(Exception):  # noqa: N818  (not a caller's error: a scan turns it into an issue)
    """A file has no usable tool; only used inside the package."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason: Reason = reason
        self.detail = detail
        self.text = ""

    def issue(self, path: str) -> ScanIssue:
        return ScanIssue(
            path=printable(path),
            reason=self.reason,
            detail=printable(self.detail),
            text=self.text,
        )

    def error(self, path: str) -> ToolScanError:
        issue = self.issue(path)
        return ToolScanError(f"{issue.path}: {issue.detail}", issue)


def printable(text: str) -> str:
    """Escape undecodable bytes of file names, and control characters."""
    if text.isascii() and text.isprintable():
        return text
    shown = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)


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
        stamp: The file's size, modification and change time in nanoseconds, and inode; `None` if
            the file changed so shortly before it was read that a later edit could leave them equal.
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
    stamp: Stamp | None
    params_class: str = ""
    definitions: str = field(default="", repr=False)

    VERSION: ClassVar[int] = 5
    """Incremented when the same file yields a different record: stored ones must be read again."""


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
    touched: Mapping[str, Stamp | None] = field(default_factory=dict[str, "Stamp | None"])
    categories: Mapping[str, str] = field(default_factory=dict[str, str])


def input_schema(record: ToolRecord) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a tool's input.

    For `params: Params` it is the schema of `Params`, otherwise that of the arguments. It is
    equivalent to pydantic's schema of the class or function, without titles that pydantic derives
    from names, and with descriptions from attribute docstrings and Args sections.

    The schema allows any object if the record has no definitions, or too deeply nested ones.
    """
    # The syntax reader is imported on first use, because a scan that finds no change needs none.
    from toolscan._schema import read_input

    return read_input(record)


def output_schema(record: ToolRecord) -> dict[str, Any] | None:
    """Return the JSON Schema (2020-12) of a tool's output; `None` if it is not declared.

    It is in pydantic's validation mode, not its serialization mode. It is also `None` if the record
    has no definitions, or too deeply nested ones.
    """
    from toolscan._schema import read_output

    return read_output(record)


def stub(record: ToolRecord) -> str:
    """Return the import line, the signature with types, the summary, and the parameters' meaning.

    A tool with `params: Params` is shown with the fields of `Params`, by their names in its
    constructor, and with `run_async`, if its module has that for event loops. Classes that
    parameters refer to are shown with their fields.
    """
    from toolscan._stub import write_stub

    return write_stub(record)
