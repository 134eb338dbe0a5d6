"""The OpenAPI document, generated from the models that validate requests."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from pytools_hybrid.search import ToolDescription
from pytools_hybrid.serve.http._models import (
    CallAnswerModel,
    HealthModel,
    OutcomeModel,
    SearchAnswerModel,
    StatisticsModel,
)
from pytools_hybrid.serve.http._parameters import (
    EXAMPLE_ID,
    CallBody,
    DescribeQuery,
    NoQuery,
    OutcomeReport,
    SearchQuery,
    StatisticsQuery,
    ToolSearchQuery,
)
from pytools_hybrid.serve.http._problems import MEDIA_TYPE, ProblemDetails

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from pydantic.json_schema import JsonSchemaMode

_REF = "#/components/schemas/{model}"
_DOCUMENT = {"type": "object", "description": "This document"}
_TEXT = {"type": "string", "description": "Prometheus' text format"}
_ANY_SPELLING = "The tool's id, or another system's spelling, such as github__create_issue"
_PROBLEMS = {
    400: "The body is not valid JSON",
    404: "No tool has that name",
    408: "The body did not arrive in time",
    409: "Several tools have that name, or the server is not configured for it",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "The request is invalid; errors lists what is wrong",
    502: "The tool's MCP server could not be reached, or gave an invalid answer",
    503: "Too many requests, or the index cannot be read; try again",
}
_ALWAYS = {
    401: "The token is missing or wrong",
    403: "Pages from that origin are not allowed",
    421: "The host name is not allowed",
    500: "The server failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """An operation of the API."""

    id: str
    summary: str
    query: type[BaseModel] = NoQuery
    body: type[BaseModel] | None = None
    path_parameter: str | None = None
    answers: Mapping[int, tuple[str, type[BaseModel] | dict[str, Any]]]
    media_type: str = "application/json"
    problems: tuple[int, ...] = (422,)


_STATUS = {
    ("/health", "get"): _Operation(
        id="health",
        summary="Return the server's health; without the token, only its status",
        answers={200: ("The server works", HealthModel), 503: ("It cannot search", HealthModel)},
    ),
    ("/metrics", "get"): _Operation(
        id="metrics",
        summary="Return the metrics, for Prometheus",
        answers={200: ("The figures", _TEXT)},
        media_type="text/plain",
        problems=(422, 503),
    ),
    ("/openapi.json", "get"): _Operation(
        id="openapi", summary="Return this document", answers={200: ("OpenAPI 3.1", _DOCUMENT)}
    ),
}
_OVER_THE_INDEX = {
    ("/search", "get"): _Operation(
        id="search",
        summary="Find tools by what they do",
        query=SearchQuery,
        answers={200: ("Tools, best first", SearchAnswerModel)},
        problems=(422, 503),
    ),
    ("/api/v1/tools/search", "get"): _Operation(
        id="search_tools",
        summary="Find tools by what they do, with filters",
        query=ToolSearchQuery,
        answers={200: ("Tools, best first", SearchAnswerModel)},
        problems=(404, 409, 422, 503),
    ),
    ("/api/v1/tools/{id}", "get"): _Operation(
        id="describe_tool",
        summary="Describe a tool",
        query=DescribeQuery,
        path_parameter=_ANY_SPELLING,
        answers={200: ("The tool", ToolDescription)},
        problems=(404, 409, 422, 503),
    ),
    ("/api/v1/stats", "get"): _Operation(
        id="statistics",
        summary="Summarize the usage record",
        query=StatisticsQuery,
        answers={200: ("The usage record in numbers", StatisticsModel)},
        problems=(422, 503),
    ),
    ("/api/v1/outcomes", "post"): _Operation(
        id="report_outcome",
        summary="Report whether a tool worked",
        body=OutcomeReport,
        answers={
            200: ("Accepted but not recorded: the usage record is off or read-only", OutcomeModel),
            201: ("Written", OutcomeModel),
            202: ("Accepted, to be recorded once the index is writable", OutcomeModel),
        },
        problems=(400, 404, 408, 409, 413, 415, 422, 503),
    ),
}


_CALLING = {
    ("/api/v1/tools/{id}/call", "post"): _Operation(
        id="call_tool",
        summary="Call a tool on its MCP server",
        body=CallBody,
        path_parameter=_ANY_SPELLING,
        answers={200: ("The server's answer, even if the tool failed", CallAnswerModel)},
        problems=(400, 404, 408, 409, 413, 415, 422, 502, 503),
    ),
}


def openapi_document(*, has_index: bool, has_token: bool, calls: bool = False) -> dict[str, Any]:
    """Describe the JSON API."""
    operations = {
        **_STATUS,
        **(_OVER_THE_INDEX if has_index else {}),
        **(_CALLING if calls else {}),
    }
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for (path, method), operation in operations.items():
        paths.setdefault(path, {})[method] = _operation(operation, schemas, has_token=has_token)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "pytools-hybrid",
            "version": version("pytools-hybrid"),
            "summary": "Finds Python tools by what they do.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas.all()},
    }
    if has_token:
        scheme = {"type": "http", "scheme": "bearer", "description": "The server's --token"}
        document["components"]["securitySchemes"] = {"token": scheme}
        document["security"] = [{"token": []}]
        paths["/health"]["get"]["security"] = [{}, {"token": []}]
    return document


class _Schemas:
    """Collects the schemas of models, each once."""

    def __init__(self) -> None:
        self._schemas: dict[str, Any] = {}

    def of(self, model: type[BaseModel], mode: JsonSchemaMode = "serialization") -> dict[str, Any]:
        """Return the reference to a model's schema."""
        references, definitions = models_json_schema([(model, mode)], ref_template=_REF)
        self._schemas |= definitions["$defs"]
        return next(iter(references.values()))

    def all(self) -> dict[str, Any]:
        """Return the schemas by name."""
        return dict(sorted(self._schemas.items()))


def _operation(operation: _Operation, schemas: _Schemas, *, has_token: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.id, "summary": operation.summary}
    parameters = _parameters(operation)
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        schema = schemas.of(operation.body, "validation")
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    responses = {
        str(status): {
            "description": text,
            "content": {
                operation.media_type: {
                    "schema": answer if isinstance(answer, dict) else schemas.of(answer)
                }
            },
        }
        for status, (text, answer) in operation.answers.items()
    }
    problems = {status: _PROBLEMS[status] for status in operation.problems}
    problems |= {status: why for status, why in _ALWAYS.items() if has_token or status != 401}
    problem = schemas.of(ProblemDetails)
    for status, why in problems.items():
        content = {MEDIA_TYPE: {"schema": problem}}
        responses.setdefault(str(status), {"description": why, "content": content})
    described["responses"] = dict(sorted(responses.items()))
    return described


def _parameters(operation: _Operation) -> list[dict[str, Any]]:
    schema = operation.query.model_json_schema(ref_template=_REF)
    definitions = schema.get("$defs", {})
    parameters: list[dict[str, Any]] = []
    if operation.path_parameter is not None:
        parameters.append(
            {
                "name": "id",
                "in": "path",
                "required": True,
                "description": operation.path_parameter,
                "schema": {"type": "string", "minLength": 1, "examples": [EXAMPLE_ID]},
            }
        )
    for name, described in schema["properties"].items() if "properties" in schema else ():
        parameter: dict[str, Any] = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": described["description"],
            "schema": _plain(described, definitions),
        }
        if parameter["schema"].get("type") == "array":
            parameter |= {"style": "form", "explode": True}
        parameters.append(parameter)
    return parameters


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, because such a parameter is left out."""
    plain: dict[str, Any] = {}
    for alternative in schema.get("anyOf", []):
        if alternative.get("type") != "null":
            plain |= alternative
    plain |= {key: value for key, value in schema.items() if key not in {"anyOf", "description"}}
    if (reference := plain.pop("$ref", None)) is not None:
        plain = definitions[reference.rpartition("/")[2]] | plain
    dropped = {"title", "description"}
    if plain.get("default") is None:
        dropped.add("default")
    return {key: value for key, value in plain.items() if key not in dropped}
