"""The parameters of requests, and reading them from the query or the body."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pytools_hybrid.search import MAX_NAMES, DetailLevel, Scope, SearchMode
from pytools_hybrid.serve.http._limits import MAX_QUERY
from pytools_hybrid.serve.http._problems import FieldError, ProblemError
from pytools_hybrid.settings import MAX_LIMIT, AliasError, renamed

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

Q = TypeVar("Q", bound=BaseModel)

EXAMPLE_ID = "mcptools:github:create_issue"
"""A tool's id, as an example in the OpenAPI document."""

_SHOWN = 100
_LARGEST_TIME = 1e11
_SHOWN_ERRORS = 20
_LONGEST_NAME = 500


def _written(pattern: str, kind: str, read: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that only accepts JSON notation: pydantic would read ` 1_0 ` as ten."""
    compiled = re.compile(pattern, re.ASCII)

    def validate(value: object) -> object:
        if not isinstance(value, str):
            return value
        if not compiled.fullmatch(value):
            raise ValueError(f"give {kind}")
        return read(value)

    return BeforeValidator(validate)


def _names(value: list[str]) -> list[str]:
    """Split a value into names separated by commas."""
    names = [name.strip(" ") for part in value for name in part.split(",")]
    if not all(names):
        raise ValueError("a name is empty")
    return names


_whole = _written("-?(0|[1-9][0-9]{0,20})", "a whole number", int)
_number = _written(
    r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?", "a number", float
)
# The notation is the last annotation, because a schema only shows bounds that precede it.
Flag = Annotated[bool, _written("true|false", "true or false", "true".__eq__)]
Results = Annotated[int, Field(ge=1, le=MAX_LIMIT), _whole]
Share = Annotated[float, Field(ge=0, le=1), _number]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False), _number]
Seconds = Annotated[float, Field(ge=0, le=_LARGEST_TIME), _number]
Words = Annotated[str, Field(max_length=MAX_QUERY)]
Names = Annotated[
    list[
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=_LONGEST_NAME,
                pattern="^[^,]*[^,\\s][^,]*(,[^,]*[^,\\s][^,]*)*$",
            ),
        ]
    ],
    Field(max_length=MAX_NAMES),
    AfterValidator(_names),
]


class Query(BaseModel):
    """The parameters in the query of a URL."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoQuery(Query):
    """No parameters."""


class SearchQuery(Query):
    """A short search."""

    q: Annotated[Words, Field(description="What the tool should do, in plain language")]
    limit: Annotated[
        Results, Field(description="Maximum number of results; the default can be configured")
    ] = 5
    threshold: Annotated[
        Share, Field(description="The lowest confidence; the default can be configured")
    ] = 0.0
    mode: Annotated[SearchMode, Field(description="Which channels to search")] = SearchMode.HYBRID
    scope: Annotated[Scope, Field(description="Whose tools")] = Scope.ALL


class ToolSearchQuery(Query):
    """A search with filters."""

    query: Annotated[Words, Field(description="What the tool should do, in plain language")]
    top_k: Annotated[
        Results, Field(description="Maximum number of results; the default can be configured")
    ] = 5
    threshold: Annotated[
        Share | None,
        Field(description="The lowest confidence; by default the server's setting"),
    ] = None
    use_llm: Annotated[
        Flag | None,
        Field(
            description="Whether a language model may reorder the first results; by default the "
            "server's setting. Requires a server started with --rerank."
        ),
    ] = None
    language: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=_SHOWN,
            description="The language that tools are written in; all of them are Python",
        ),
    ] = None
    category: Annotated[
        Names | None,
        Field(
            description="Only tools of any of these categories; repeated, or separated by commas"
        ),
    ] = None
    tags: Annotated[
        Names | None, Field(description="Only tools with all of these tags; as for category")
    ] = None
    max_latency_ms: Annotated[
        Milliseconds | None,
        Field(description="Leave out tools whose median latency is known to be above this"),
    ] = None
    min_success_rate: Annotated[
        Share | None,
        Field(description="Leave out tools whose share of successes is known to be below this"),
    ] = None
    unknown: Annotated[
        Literal["include", "exclude"],
        Field(description="What to do with tools whose latency or share of successes is unknown"),
    ] = "include"


class DescribeQuery(Query):
    """Parameters of a description."""

    detail: Annotated[DetailLevel, Field(description="How much to return")] = DetailLevel.SCHEMA


class StatisticsQuery(Query):
    """Parameters of the statistics."""

    since: Annotated[
        Seconds | None,
        Field(description="Leave out older records, in seconds since 1970"),
    ] = None


class OutcomeReport(BaseModel):
    """The outcome of using a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tool_id: Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME, examples=[EXAMPLE_ID])]
    success: Annotated[bool, Field(description="Whether the tool worked", examples=[True])]
    latency_ms: Annotated[
        float | None, Field(ge=0, allow_inf_nan=False, description="How long it took")
    ] = None
    search_id: Annotated[
        str | None,
        Field(max_length=_LONGEST_NAME, description="The search that found it"),
    ] = None


class CallBody(BaseModel):
    """The arguments of a call."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    arguments: Annotated[
        dict[str, Any], Field(description="The arguments, as described by the tool's input schema")
    ] = Field({})


def read_query(model: type[Q], request: Request, *, skip_empty: bool = False) -> Q:
    """Parse the query of a request; a `ProblemError` lists everything that is wrong with it.

    With `skip_empty`, empty values count as missing, because forms send empty fields.
    """
    fields = model.model_fields
    given: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if value or not skip_empty:
            given.setdefault(name, []).append(value)
    errors: list[FieldError] = []
    try:
        given = renamed(given, fields)
    except AliasError as error:
        errors.append(FieldError(parameter=error.alias, detail=str(error)))
    lists = {name for name, field in fields.items() if Names in get_args(field.annotation)}
    errors += [
        FieldError(parameter=name[:_SHOWN], detail=f"is not known; known are {_listed(fields)}")
        for name in given
        if name not in fields and not errors
    ]
    errors += [
        FieldError(parameter=name, detail=f"is given {len(values)} times; give it once")
        for name, values in given.items()
        if name in fields and name not in lists and len(values) > 1
    ]
    values = {
        name: value if name in lists else value[0]
        for name, value in given.items()
        if name in fields
    }
    try:
        read = model.model_validate(values)
    except ValidationError as error:
        read = None
        errors += [
            FieldError(parameter=str(each["loc"][0]), detail=_message(each["msg"]))
            for each in error.errors(include_url=False, include_context=False, include_input=False)
        ]
    if read is None or errors:
        raise _refusal("the query is invalid", errors)
    return read


async def read_body(model: type[Q], request: Request) -> Q:
    """Parse the body of a request; a `ProblemError` lists everything that is wrong with it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "send application/json", headers={"Accept": "application/json"})
    body = await request.body()
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        raise ProblemError(400, "the body is not valid JSON")
    known = _listed(model.model_fields)
    raise _refusal(
        "the body is invalid",
        [
            FieldError(
                pointer="".join(f"/{_escaped(part)}" for part in each["loc"]),
                detail=f"is not known; known are {known}"
                if each["type"] == "extra_forbidden"
                else _message(each["msg"]),
            )
            for each in found
        ],
    )


def _refusal(what: str, errors: list[FieldError]) -> ProblemError:
    shown = errors[:_SHOWN_ERRORS]
    told = "; ".join(f"{each.parameter or each.pointer or 'it'}: {each.detail}" for each in shown)
    more = f"; and {len(errors) - len(shown)} more" if len(errors) > len(shown) else ""
    return ProblemError(422, f"{what}: {told}{more}", errors=shown)


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text[:1].lower() + text[1:]


def _listed(fields: dict[str, Any]) -> str:
    return ", ".join(fields) or "none"


def _escaped(part: str | int) -> str:
    return str(part)[:_SHOWN].replace("~", "~0").replace("/", "~1")
