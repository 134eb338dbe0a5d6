"""Describing a tool at a requested level of detail, from its file, without importing it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import toolscan
from pydantic import BaseModel
from toolindex import ToolIndexError
from toolscan.docstrings import Docstring

from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue
    from toolindex import ToolEntry, ToolUsage
    from toolscan import ToolRecord

    from pytools_hybrid.settings import Roots

_SUMMARY_CHARACTERS = 120
_OUTSIDE = (
    "its file is outside the root, behind a symbolic link: nothing more is shown unless "
    "PYTOOLS_OUTSIDE_LINKS is true"
)


class DetailLevel(StrEnum):
    """How much to say about a tool; each level includes the one before."""

    SUMMARY = "summary"
    SCHEMA = "schema"
    FULL = "full"


class ToolDescription(BaseModel):
    """A description of a tool; fields that its level of detail leaves out are None.

    Attributes:
        id: `source:category:name`.
        name: The last part of the id.
        namespace: The rest of the id: `source:category`.
        summary: The first sentence of the docstring, at most 120 characters.
        signature: The signature of the function to call.
        input_schema: The JSON Schema (2020-12) of its arguments.
        output_schema: The JSON Schema of its result; None also if that is not declared.
        required: The required parameters.
        defaults: The source text of the defaults of the other parameters.
        types: The annotations of all parameters, as written.
        description: The whole docstring.
        examples: The examples in the docstring.
        tags: The tags that the module declares.
        stub: The import line, classes and signature, enough to write a call.
        path: The source file.
        usage: Its recorded outcomes: how many, how many successes, latencies.
        notes: Why something is missing here.
    """

    id: str
    name: str
    namespace: str
    summary: str
    signature: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    required: list[str] | None = None
    defaults: dict[str, str] | None = None
    types: dict[str, str] | None = None
    description: str | None = None
    examples: list[str] | None = None
    tags: list[str] | None = None
    stub: str | None = None
    path: str | None = None
    usage: dict[str, Any] | None = None
    notes: list[str] | None = None


def describe(
    entry: ToolEntry,
    roots: Roots,
    *,
    detail: DetailLevel,
    usage: ToolUsage | None = None,
    outside_links: bool = False,
    stored: Callable[[str], ToolRecord] | None = None,
) -> ToolDescription:
    """Describe a tool.

    Schemas and the stub are made from the current file, or from the index if the file cannot be
    read. Of a file outside its root, only the summary is shown. `stored` returns the record that a
    shared index has, if the files are on other hosts.
    """
    source, category, name = entry.id.source, entry.id.category, entry.id.name
    described = ToolDescription(
        id=str(entry.id),
        name=name,
        namespace=f"{source}:{category}",
        summary=short(readable(entry.summary), _SUMMARY_CHARACTERS),
    )
    if detail is DetailLevel.SUMMARY:
        return described
    if stored is None:
        record, problem = _read(entry, roots, outside_links=outside_links)
    else:
        record, problem = _fetched(entry, stored)
    if problem == _OUTSIDE:
        return described.model_copy(update={"notes": [problem]})
    parameters = record.parameters if record else entry.parameters
    named = [(it.alias or it.name, it) for it in parameters]
    described = described.model_copy(
        update={
            "signature": readable(record.signature if record else entry.signature),
            "input_schema": _readable(toolscan.input_schema(record)) if record else None,
            "output_schema": _readable(toolscan.output_schema(record)) if record else None,
            "required": [name for name, it in named if it.required],
            "defaults": {
                name: readable(it.default) for name, it in named if it.default is not None
            },
            "types": {name: readable(it.annotation) for name, it in named if it.annotation},
            "notes": [problem] if problem else None,
        }
    )
    if detail is DetailLevel.SCHEMA:
        return described
    description = readable(record.description if record else entry.description)
    return described.model_copy(
        update={
            "description": description,
            "examples": list(Docstring(description).examples),
            "tags": list(record.tags if record else entry.tags),
            "stub": readable(toolscan.stub(record)) if record else None,
            "path": roots.display_path(entry.path) if stored is None else entry.path,
            "usage": _usage(usage),
        }
    )


def short(text: str, length: int) -> str:
    """Cut a text to a length, between words if that keeps half of it, never inside a character.

    A character is what readers perceive as one, such as a flag or a letter with its accents
    (extended grapheme clusters, Unicode Standard Annex 29).
    """
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    from apsw import unicode

    end = 0
    while (after := unicode.grapheme_next_break(text, end)) < length:
        end = after
    space = text.rfind(" ", length // 2, end + 1)
    return f"{text[: space if space > 0 else end].rstrip()}…"


def _read(entry: ToolEntry, roots: Roots, *, outside_links: bool) -> tuple[ToolRecord | None, str]:
    """Read a tool's file, or say why it was not read."""
    root, path = roots.resolve(entry.path)
    try:
        record = toolscan.read_tool(
            path, root, name=entry.id.name, layouts=roots.layouts, outside_links=outside_links
        )
    except (toolscan.ToolScanError, OSError) as error:
        issue = getattr(error, "issue", None)
        if isinstance(issue, toolscan.ScanIssue) and issue.reason == "outside_root":
            return None, _OUTSIDE
        return None, f"its file cannot be read now, so this is from the index: {error}"
    return record, ""


def _fetched(
    entry: ToolEntry, stored: Callable[[str], ToolRecord]
) -> tuple[ToolRecord | None, str]:
    """Return a shared index's record of a tool's file, or say why there is none."""
    try:
        return stored(str(entry.id)), ""
    except ToolIndexError as error:
        return None, f"its source cannot be fetched now, so this is from this host's copy: {error}"


def _readable(schema: JsonValue) -> JsonValue:
    """Clean the texts of a schema that are for readers; values that a call must repeat are kept."""
    if isinstance(schema, list):
        return [_readable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: readable(value)
        if key in {"description", "title"} and isinstance(value, str)
        else _readable(value)
        for key, value in schema.items()
    }


def _usage(usage: ToolUsage | None) -> dict[str, Any]:
    if usage is None:
        return {"observations": 0}
    return {
        "observations": usage.observations,
        "successes": usage.successes,
        "success_rate": round(usage.success_rate, 3),
        "latency_p50_ms": usage.latency_p50_ms,
        "latency_p95_ms": usage.latency_p95_ms,
    }
