"""JSON Schemas as short as possible, because they are in the context of every agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytools_hybrid.serve.operations import Brief

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_NULL = {"type": "null"}


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model's arguments, without what agents do not need.

    Left out are titles, docstrings of models, null (None is not sent), and maximum lengths of texts
    (an error names them). References are replaced with their targets, so the model must not be
    recursive.
    """
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        for brief in (it for it in field.metadata if isinstance(it, Brief)):
            schema["properties"][name]["description"] = brief.text
    return _compact(schema, schema.get("$defs", {}))


def result_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model's results, which only programs read.

    It has names and types, but no descriptions, ranges, allowed values, required names or item
    types that are strings.
    """
    return _brief(arguments_schema(model))


def _compact(schema: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        whole = models[schema["$ref"].rpartition("/")[2]] | rest
        return _compact(dict(sorted(whole.items())), models)
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
            case "default" | "description" if value in (None, ""):
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
