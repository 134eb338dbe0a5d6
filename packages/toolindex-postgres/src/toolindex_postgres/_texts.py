"""Records and other texts as the server stores them: JSON in ASCII.

PostgreSQL's texts can contain neither NUL nor lone surrogates, but the texts of tools may.
"""

from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from toolscan import Parameter, ToolId, ToolRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

# A stamp belongs to a file on one host. Definitions are stored separately, because they are long
# and no search needs them.
_APART = {"id", "parameters", "stamp", "definitions"}
_FIELDS = tuple(field.name for field in fields(ToolRecord) if field.name not in _APART)
_values = attrgetter(*_FIELDS)
_PARAMETER_FIELDS = tuple(field.name for field in fields(Parameter))
_parameter_values = attrgetter(*_PARAMETER_FIELDS)
_TUPLES = ("tags", "use_cases")


def encoded(text: str) -> str:
    """Return a text as a key of a table; plain text is unchanged."""
    return json.dumps(text)[1:-1]


def decoded(key: str) -> str:
    """Return the text of a key."""
    return str(json.loads(f'"{key}"'))


def record_texts(record: ToolRecord) -> tuple[str, str]:
    """Return a tool's searchable record and its definitions, each as JSON text."""
    values: dict[str, Any] = dict(zip(_FIELDS, _values(record), strict=True))
    values["id"] = str(record.id)
    values["parameters"] = [_parameter_values(it) for it in record.parameters]
    return json.dumps(values), json.dumps(record.definitions)


def record_of(text: str, definitions: str = '""') -> ToolRecord:
    """Return the record of a tool, without the stamp of its file.

    Fields added by a later version of this package are ignored.
    """
    values = json.loads(text)
    known: dict[str, Any] = {name: values[name] for name in _FIELDS if name in values}
    known |= {name: tuple(known[name]) for name in _TUPLES}
    parameters: Sequence[Sequence[Any]] = values["parameters"]
    return ToolRecord(
        id=ToolId.parse(values["id"]),
        parameters=tuple(
            Parameter(**dict(zip(_PARAMETER_FIELDS, it, strict=False))) for it in parameters
        ),
        stamp=None,
        definitions=json.loads(definitions),
        **known,
    )
