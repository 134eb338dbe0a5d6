"""The documentation page of the JSON API: its OpenAPI document, with commands to copy."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from pytools_hybrid.serve.http._parameters import EXAMPLE_ID, NoQuery, read_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.requests import Request

_EXAMPLES = {"q": "open an issue", "query": "open an issue", "tool_id": EXAMPLE_ID}
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} of them",
}


class _Field(NamedTuple):
    """A parameter, or a property of a JSON object."""

    name: str
    where: str
    type: str
    is_required: bool
    default: str
    description: str


def docs_page(request: Request, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of the page.

    Args:
        request: The request, whose address is used in commands.
        document: The OpenAPI document.

    Raises:
        ProblemError: The query of the page is invalid.
    """
    read_query(NoQuery, request)
    schemas = document["components"]["schemas"]
    address = f"{request.url.scheme}://{request.headers['host']}"
    has_token = "security" in document
    return {
        "document": document,
        "operations": [
            {
                "id": described["operationId"],
                "method": method.upper(),
                "path": path,
                "summary": described["summary"],
                "parameters": [_parameter(it) for it in described.get("parameters", ())],
                "body": _schema_of(described.get("requestBody")),
                "answers": [
                    (
                        status,
                        answer["description"],
                        next(iter(answer["content"])),
                        _schema_of(answer),
                    )
                    for status, answer in described["responses"].items()
                ],
                "curl": _curl(address + path, method, described, schemas, has_token=has_token),
            }
            for path, methods in document["paths"].items()
            for method, described in methods.items()
        ],
        "schemas": {name: list(_fields(schema)) for name, schema in schemas.items()},
        "enums": {name: schema["enum"] for name, schema in schemas.items() if "enum" in schema},
        "abouts": {name: schema.get("description", "") for name, schema in schemas.items()},
    }


def _schema_of(content: Mapping[str, Any] | None) -> str:
    """Return the name of the schema of a body; empty if it has none."""
    if content is None:
        return ""
    (media,) = content["content"].values()
    return _name(media["schema"])


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _parameter(it: Mapping[str, Any]) -> _Field:
    schema = it["schema"]
    return _Field(
        name=it["name"],
        where=it["in"],
        type=_type(schema),
        is_required=it["required"],
        default=_default(schema),
        description=it.get("description", ""),
    )


def _fields(schema: Mapping[str, Any]) -> Iterator[_Field]:
    required = schema.get("required", ())
    for name, it in schema.get("properties", {}).items():
        yield _Field(
            name, "body", _type(it), name in required, _default(it), it.get("description", "")
        )


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else json.dumps(default, ensure_ascii=False)


def _type(schema: Mapping[str, Any]) -> str:
    """Return a short description of a schema, or its name."""
    if name := _name(schema):
        return name
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[key])))
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(it) for it in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "any value")
    if kind == "array":
        kind = f"list of {_type(schema['items'])}" if "items" in schema else "list"
    elif kind == "object" and (values := schema.get("additionalProperties")) and values is not True:
        kind = f"object of {_type(values)}"
    bounds = [text.format(schema[key]) for key, text in _BOUNDS.items() if key in schema]
    return ", ".join([str(kind), *bounds])


def _curl(
    address: str,
    method: str,
    described: Mapping[str, Any],
    schemas: Mapping[str, Any],
    *,
    has_token: bool,
) -> str:
    parts: list[Sequence[str]] = []
    parameters = described.get("parameters", ())
    if any(it["in"] == "path" for it in parameters):
        address = address.replace("{id}", quote(EXAMPLE_ID))
    asked = [it["name"] for it in parameters if it["in"] == "query" and it["required"]]
    parts.append(("curl", *(("--get",) if asked else ()), address))
    parts += [("--data-urlencode", f"{name}={_EXAMPLES.get(name, 'x')}") for name in asked]
    body = _schema_of(described.get("requestBody"))
    if body:
        example = _example(schemas[body])
        parts += [("--request", method.upper()), ("--header", "Content-Type: application/json")]
        parts.append(("--data", json.dumps(example)))
    lines = [shlex.join(part) for part in parts]
    if has_token:
        # In double quotes, so that the shell inserts the token.
        lines.append('--header "Authorization: Bearer $PYTOOLS_TOKEN"')
    return " \\\n  ".join(lines)


def _example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with all required properties."""
    properties = schema.get("properties", {})
    return {name: _example_of(name, properties[name]) for name in schema.get("required", ())}


def _example_of(name: str, schema: Mapping[str, Any]) -> object:
    if examples := schema.get("examples"):
        return examples[0]
    by_type: dict[str, object] = {"boolean": True, "object": {}, "array": [], "number": 1}
    return _EXAMPLES.get(name, by_type.get(schema.get("type", ""), "x"))
