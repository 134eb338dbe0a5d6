"""The queries of an evaluation: lines of JSON, each with the tools that answer it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolimport.system import read_regular_file

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

EXAMPLE_LINE = (
    '{"id": "q1", "query": "open an issue on github", "gold": ["mcptools:github:create_issue"]}'
)
_NO_GROUP = "(none)"
_MOST_BYTES = 256 << 20


class QueriesFileError(SettingsError):
    """An invalid line of a queries file."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__("--queries", f"{path}:{line}: {problem}; write lines as {EXAMPLE_LINE}")
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuery:
    """A query and the tools that answer it.

    Attributes:
        id: Its id, unique in the file.
        gold: The ids of the right tools, without duplicates.
        group: Its group in a breakdown; empty without one.
    """

    id: str
    text: str
    gold: tuple[str, ...]
    group: str = ""


def read_queries(path: Path, *, by: str | None = None) -> list[EvaluationQuery]:
    """Read a queries file; blank lines and unknown keys are ignored.

    A query without the key `by` is in the group "(none)".

    Raises:
        QueriesFileError: A line is not a query, or an id occurs twice.
        SettingsError: The file cannot be read or has no queries, or no query has the key.
    """
    try:
        content = read_regular_file(path, limit=_MOST_BYTES)
    except OSError as error:
        raise SettingsError("--queries", f"{path}: {error.strerror}") from error
    queries: dict[str, EvaluationQuery] = {}
    keys: set[str] = set()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = _fields(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
            query = _query(fields, by)
        except ValueError as error:
            raise QueriesFileError(path, number, str(error)) from error
        if query.id in queries:
            raise QueriesFileError(path, number, f"the id {query.id!r} occurs twice")
        queries[query.id] = query
        keys |= fields.keys()
    if not queries:
        raise SettingsError("--queries", f"{path} contains no query; write lines as {EXAMPLE_LINE}")
    if by is not None and by not in keys:
        there = ", ".join(sorted(keys - {"id", "query", "gold"})) or "none"
        raise SettingsError("--by", f"no query has the key {by!r}; they have: {there}")
    return list(queries.values())


def _fields(line: bytes) -> dict[str, Any]:
    try:
        value: JsonValue = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg}, column {error.colno})") from None
    except (ValueError, RecursionError):
        # Numbers with thousands of digits, or brackets nested thousands deep.
        raise ValueError("its numbers or nesting are too large") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _query(fields: dict[str, Any], by: str | None) -> EvaluationQuery:
    for key in ("id", "query", "gold"):
        if key not in fields:
            raise ValueError(f'it has no "{key}"')
    id_, text = fields["id"], fields["query"]
    gold: JsonValue = fields["gold"]
    if isinstance(id_, int) and not isinstance(id_, bool):
        id_ = str(id_)
    if not isinstance(id_, str) or not id_:
        raise ValueError('"id" is not a name')
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"query" is not a text')
    if not isinstance(gold, list) or not all(isinstance(each, str) and each for each in gold):
        raise ValueError('"gold" is not a list of tool ids')
    if not gold:
        raise ValueError('"gold" is empty: a query without a right tool cannot be measured')
    return EvaluationQuery(
        id=id_,
        text=text,
        gold=tuple(dict.fromkeys(map(str, gold))),
        group="" if by is None else _group(fields.get(by)),
    )


def _group(value: object) -> str:
    if value is None or value == "":
        return _NO_GROUP
    return value if isinstance(value, str) else json.dumps(value)
