"""Records and other texts as the server stores them: JSON in ASCII.

PostgreSQL's texts can contain neither NUL nor lone surrogates, but the texts of tools may. Rows may
be corrupt, so everything that is read is validated; a ValueError has the reason.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from toolscan import Parameter, ToolId, ToolRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# A stamp belongs to a file on one host. Definitions are stored separately, because they are long
# and no search needs them.
_APART = {"id", "parameters", "stamp", "definitions"}
_FIELDS = tuple(field.name for field in fields(ToolRecord) if field.name not in _APART)
_values = attrgetter(*_FIELDS)
_PARAMETER_FIELDS = tuple(field.name for field in fields(Parameter))
_parameter_values = attrgetter(*_PARAMETER_FIELDS)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_texts(value: Any) -> bool:  # noqa: ANN401
    return _is_list(value) and all(map(_is_text, value))


# By the annotation of a field. JSON has lists instead of tuples.
_IS_OF_TYPE: dict[object, Callable[[object], bool]] = {
    "str": _is_text,
    "str | None": lambda value: value is None or _is_text(value),
    "bool": lambda value: isinstance(value, bool),
    "tuple[str, ...]": _is_texts,
}
_TYPES = {
    kind: [(field.name, _IS_OF_TYPE[field.type], field.default is MISSING) for field in its]
    for kind, its in (
        (ToolRecord, [it for it in fields(ToolRecord) if it.name in _FIELDS]),
        (Parameter, fields(Parameter)),
    )
}
_EMPTY = '""'


def encoded(text: str) -> str:
    """Return a text as a key of a table; plain text is unchanged."""
    return json.dumps(text)[1:-1]


def decoded(key: str) -> str:
    """Return the text of a key."""
    return str(json.loads(f'"{key}"'))


def shown(key: str) -> str:
    """Return the text of a key for a message, or the key itself if it cannot be decoded."""
    try:
        return decoded(key)
    except ValueError:
        return key


def record_texts(record: ToolRecord) -> tuple[str, str]:
    """Return a tool's searchable record and its definitions, each as JSON text."""
    values: dict[str, Any] = dict(zip(_FIELDS, _values(record), strict=True))
    values["id"] = str(record.id)
    values["parameters"] = [_parameter_values(it) for it in record.parameters]
    return json.dumps(values), json.dumps(record.definitions)


def record_of(row: Sequence[str], definitions: str = _EMPTY) -> ToolRecord:
    """Return the record of a tool, without the stamp of its file.

    Fields added by a later version of this package are ignored.

    Args:
        row: The tool's id, path, file hash, text hash and record, as stored.
        definitions: Its definitions.

    Raises:
        ValueError: The record cannot be read, or is not that of the row.
    """
    *keys, text = row
    values = _loaded(text, "its record is")
    if not _is_object(values):
        raise ValueError("its record is not an object")
    parameters = _of_type(values, "parameters", _is_list)
    texts = _loaded(definitions, "its definitions are")
    record = ToolRecord(
        id=ToolId.parse(_of_type(values, "id", _is_text)),
        parameters=tuple(map(_parameter, parameters)),
        stamp=None,
        definitions=_of_type({"definitions": texts}, "definitions", _is_text),
        **_checked(ToolRecord, values),
    )
    own = encoded(str(record.id)), encoded(record.path), record.file_hash, record.text_hash
    for name, key, its in zip(("id", "path", "file_hash", "text_hash"), keys, own, strict=True):
        if key != its:
            raise ValueError(f"its record has a different {name}")
    return record


def aliases_of(text: str) -> list[str]:
    """Return the aliases of a tool.

    Raises:
        ValueError: They cannot be read.
    """
    aliases = _loaded(text, "its aliases are")
    texts: list[str] = _of_type({"aliases": aliases}, "aliases", _is_texts)
    return texts


def _parameter(values: Any) -> Parameter:  # noqa: ANN401
    named = zip(_PARAMETER_FIELDS, values if _is_list(values) else (), strict=False)
    return Parameter(**_checked(Parameter, dict(named)))


def _checked(kind: type[ToolRecord | Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, is_of_type, is_required in _TYPES[kind]:
        if is_required or name in values:
            value = _of_type(values, name, is_of_type)
            known[name] = tuple(value) if _is_list(value) else value
    return known


def _of_type(values: Mapping[str, Any], name: str, is_of_type: Callable[[object], bool]) -> Any:  # noqa: ANN401
    if name not in values:
        raise ValueError(f"its field {name!r} is missing")
    if not is_of_type(values[name]):
        raise ValueError(f"its field {name!r} has the wrong type")
    return values[name]


def _loaded(text: str, what: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{what} not JSON") from None
