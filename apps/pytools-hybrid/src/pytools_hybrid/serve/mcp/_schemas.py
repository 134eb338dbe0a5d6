"""JSON Schemas as small as they can be: they sit in the context of every agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_NULL = {"type": "null"}


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, without what pydantic adds for other readers.

    Left out are titles, the docstrings of models, references (what they lead to is put in their
    place, so the model must not contain itself), null, since what is None is not sent, and the
    maximum lengths of texts, since an error names them.
    """
    schema = model.model_json_schema()
    return _compact(schema, schema.get("$defs", {}))


def result_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model that only programs read.

    It has names and types. Left out are descriptions, ranges, the values that a text can have,
    what is required, and that the items of a list or a mapping are texts.
    """
    return _brief(arguments_schema(model))


def _compact(schema: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _compact(models[schema["$ref"].rpartition("/")[2]], models)
    if (choices := [it for it in schema.get("anyOf", ()) if it != _NULL]) and len(choices) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _compact(choices[0] | rest, models)
    compact: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "$defs" | "title" | "maxLength":
                pass
            case "description" if "properties" in schema:
                pass
            case "default" if value is None:
                pass
            case "additionalProperties" if value is True:
                pass
            case "properties":
                compact[key] = {name: _compact(each, models) for name, each in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                compact[key] = _compact(cast("dict[str, Any]", value), models)
            case _:
                compact[key] = value
    return compact


def _brief(schema: Mapping[str, Any]) -> dict[str, Any]:
    brief: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "description" | "minimum" | "maximum" | "enum" | "required":
                pass
            case "items" | "additionalProperties" if value == {"type": "string"}:
                pass
            case "properties":
                brief[key] = {name: _brief(each) for name, each in value.items()}
            case "items" | "additionalProperties":
                brief[key] = _brief(value)
            case _:
                brief[key] = value
    return brief
