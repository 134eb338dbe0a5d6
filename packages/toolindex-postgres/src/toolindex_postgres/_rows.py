"""Rows as the server stores them: texts as JSON in ASCII, vectors as little-endian float32.

PostgreSQL's texts can contain neither NUL nor lone surrogates, but the texts of tools may. Rows may
be corrupt, so everything that is read is validated; a ValueError has the reason.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from toolindex import ToolIndex, VectorError
from toolscan import Parameter, ToolId, ToolRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# A stamp belongs to a file on one host. Definitions are stored separately, because they are long
# and no search needs them.
_APART = {"id", "parameters", "stamp", "definitions"}
_FIELDS = {
    ToolRecord: [field for field in fields(ToolRecord) if field.name not in _APART],
    Parameter: list(fields(Parameter)),
}
_values = attrgetter(*(field.name for field in _FIELDS[ToolRecord]))
_parameter_values = attrgetter(*(field.name for field in _FIELDS[Parameter]))
# By the annotation of a field. JSON has lists instead of tuples.
_IS_OF_TYPE: dict[object, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "dict": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "tuple[str, ...]": lambda value: (
        isinstance(value, list) and all(isinstance(it, str) for it in value)  # pyright: ignore[reportUnknownVariableType]
    ),
}


def encoded(text: str) -> str:
    """Return a text as a key of a table; plain text is unchanged."""
    return json.dumps(text)[1:-1]


def decoded(key: str) -> str:
    return str(json.loads(f'"{key}"'))


def shown(key: str) -> str:
    """Return the text of a key for a message, or the key itself if it cannot be decoded."""
    try:
        return decoded(key)
    except ValueError:
        return key


def record_texts(record: ToolRecord) -> tuple[str, str]:
    """Return a tool's searchable record and its definitions, each as JSON text."""
    names = (field.name for field in _FIELDS[ToolRecord])
    values: dict[str, Any] = dict(zip(names, _values(record), strict=True))
    values["id"] = str(record.id)
    values["parameters"] = [_parameter_values(it) for it in record.parameters]
    return json.dumps(values), json.dumps(record.definitions)


def record_of(row: Sequence[str], definitions: str = '""') -> ToolRecord:
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
    if not _IS_OF_TYPE["dict"](values):
        raise ValueError("its record is not an object")
    texts = {"definitions": _loaded(definitions, "its definitions are")}
    record = ToolRecord(
        parameters=tuple(map(_parameter, _of_type(values, "parameters", "list"))),
        id=ToolId.parse(_of_type(values, "id", "str")),
        stamp=None,
        definitions=_of_type(texts, "definitions", "str"),
        **_checked(ToolRecord, values),
    )
    own = encoded(str(record.id)), encoded(record.path), record.file_hash, record.text_hash
    for name, key, its in zip(("id", "path", "file_hash", "text_hash"), keys, own, strict=True):
        if key != its:
            raise ValueError(f"its record has a different {name}")
    return record


def aliases_of(text: str) -> list[str]:
    """Return the aliases of a tool; raise ValueError if they cannot be read."""
    aliases = {"aliases": _loaded(text, "its aliases are")}
    return list(_of_type(aliases, "aliases", "tuple[str, ...]"))


def model_of(key: str) -> str:
    """Return the name of a model; raise ValueError if it cannot be decoded."""
    try:
        return decoded(key)
    except ValueError:
        raise ValueError("its model cannot be decoded") from None


def vector_of(data: bytes, dimensions: int | None = None) -> array[float]:
    """Return the numbers of a vector.

    Raises:
        ValueError: It has another length, or no direction.
    """
    size = 4 * (dimensions if dimensions is not None else max(len(data) >> 2, 1))
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes, not {size}")
    floats = array("f")
    floats.frombytes(data)
    if sys.byteorder == "big":
        floats.byteswap()
    try:
        ToolIndex.check_dimensions("", len(floats))
    except VectorError:
        raise ValueError(f"it has {len(floats)} numbers, which is too many") from None
    length = math.hypot(*floats)
    if not length or not math.isfinite(length):
        raise ValueError("it is not finite, or all zeros")
    return floats


def checked(model_id: str, vectors: Mapping[str, Sequence[float]]) -> dict[str, array[float]]:
    """Return vectors in their stored form, or reject them like the copy would.

    Raises:
        VectorError: They cannot be stored.
    """
    floats = {text_hash: array("f", vector) for text_hash, vector in vectors.items()}
    length = len(next(iter(floats.values())))
    ToolIndex.check_dimensions(model_id, length)
    for vector in floats.values():
        size = math.hypot(*vector)
        if len(vector) != length or not math.isfinite(size) or not size:
            raise VectorError(
                model_id,
                "returned vectors of several lengths, or one that is not finite or all zeros",
            )
    return floats


def as_bytes(floats: array[float]) -> bytes:
    if sys.byteorder == "big":
        floats = array("f", floats)
        floats.byteswap()
    return floats.tobytes()


def _parameter(values: Any) -> Parameter:  # noqa: ANN401
    names = (field.name for field in _FIELDS[Parameter])
    named = zip(names, values if _IS_OF_TYPE["list"](values) else (), strict=False)
    return Parameter(**_checked(Parameter, dict(named)))


def _checked(kind: type[ToolRecord | Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for field in _FIELDS[kind]:
        if field.default is MISSING or field.name in values:
            value = _of_type(values, field.name, field.type)
            known[field.name] = tuple(value) if _IS_OF_TYPE["list"](value) else value
    return known


def _of_type(values: Mapping[str, Any], name: str, kind: object) -> Any:  # noqa: ANN401
    if name not in values:
        raise ValueError(f"its field {name!r} is missing")
    if not _IS_OF_TYPE[kind](values[name]):
        raise ValueError(f"its field {name!r} has the wrong type")
    return values[name]


def _loaded(text: str, what: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{what} not JSON") from None
