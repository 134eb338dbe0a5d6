"""The parameters of requests, and what is wrong with them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pytools_hybrid.search import MAX_NAMES
from pytools_hybrid.serve.http._limits import MAX_QUERY
from pytools_hybrid.serve.http._problems import FieldError, ProblemError
from pytools_hybrid.serve.operations import (
    CallArguments,
    DescribeArguments,
    OutcomeArguments,
    SearchArguments,
    offered,
)
from pytools_hybrid.settings import AliasError, renamed

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
_NOTATIONS: dict[type, tuple[str, str, Callable[[str], Any]]] = {
    int: ("-?(0|[1-9][0-9]{0,20})", "a whole number", int),
    float: (
        r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?",
        "a number",
        float,
    ),
    bool: ("true|false", "true or false", "true".__eq__),
}
# The names of a search's arguments in URLs.
_ARGUMENTS = {"q": "query", "top_k": "limit", "category": "categories"}


def _names(value: list[str]) -> list[str]:
    """Split a value into names separated by commas."""
    names = [name.strip(" ") for part in value for name in part.split(",")]
    if not all(names):
        raise ValueError("a name is empty")
    return names


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


class Parameters(BaseModel):
    """The parameters in the query of a URL."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _by_their_names(cls, given: dict[str, Any]) -> dict[str, Any]:
        return renamed(given, cls.model_fields)

    @field_validator("*", mode="before")
    @classmethod
    def _in_json_notation(cls, value: object, info: ValidationInfo) -> object:
        """Read a number as JSON does: pydantic would read ` 1_0 ` as ten."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        for kind, (pattern, what, read) in _NOTATIONS.items():
            if isinstance(value, str) and kind in (annotation, *get_args(annotation)):
                if not re.fullmatch(pattern, value, re.ASCII):
                    raise ValueError(f"give {what}")
                return read(value)
        return value


class NoParameters(Parameters):
    """No parameters."""


def _of_a_search(*names: str) -> type[Parameters]:
    query = Annotated[
        str,
        Field(max_length=MAX_QUERY, description="What the tool should do, in plain language"),
    ]
    category = Field(
        None,
        description="Only tools of any of these categories; repeated, or separated by commas",
    )
    tags = Field(None, description="Only tools with all of these tags; as for category")
    return offered(
        SearchArguments,
        {name: _ARGUMENTS.get(name, name) for name in names},
        Parameters,
        q=(query, ...),
        query=(query, ...),
        category=(Names | None, category),
        tags=(Names | None, tags),
    )


class SearchQuery(_of_a_search("q", "limit", "threshold", "mode", "scope")):
    """A short search."""


class ToolSearchQuery(
    _of_a_search(
        *("query", "top_k", "threshold", "category", "tags"),
        *("max_latency_ms", "min_success_rate", "unknown"),
    )
):
    """A search with filters."""

    use_llm: Annotated[
        bool | None,
        Field(
            description="Whether a language model may reorder the first results; by default the "
            "server's setting. Requires a server with PYTOOLS_RERANK_MODEL."
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


class SearchForm(
    _of_a_search("q", "mode", "scope", "category", "tags", "threshold", "limit"),
):
    """The form of the console."""

    q: Annotated[str, Field(max_length=MAX_QUERY)] = ""


class DescribeQuery(offered(DescribeArguments, {"detail": "detail"}, Parameters)):
    """Parameters of a description."""


class StatisticsQuery(Parameters):
    """Parameters of the statistics."""

    since: Annotated[
        float | None,
        Field(ge=0, le=_LARGEST_TIME, description="Leave out older records, in seconds since 1970"),
    ] = None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_TOOL_ID = Field(min_length=1, max_length=_LONGEST_NAME, examples=[EXAMPLE_ID])


class OutcomeReport(
    offered(
        OutcomeArguments,
        {name: name for name in OutcomeArguments.model_fields},
        _Body,
        tool_id=(Annotated[str, _TOOL_ID], ...),
    )
):
    """The outcome of using a tool."""


class CallBody(offered(CallArguments, {"arguments": "arguments"}, _Body)):
    """The arguments of a call."""


def search_arguments(given: Parameters) -> SearchArguments:
    """Return the arguments of a search by their own names."""
    return SearchArguments.of(given, _ARGUMENTS)


def read_query(model: type[Q], request: Request, *, is_form: bool = False) -> Q:
    """Parse the query of a URL; in that of a form, an empty field counts as missing.

    Raises:
        ProblemError: It lists everything that is wrong with it.
    """
    given: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if value or not is_form:
            given.setdefault(name, []).append(value)
    lists = list_names(model)
    values: dict[str, Any] = {}
    repeated: list[FieldError] = []
    for name, several in given.items():
        is_single = name not in lists and (is_form or len(several) == 1)
        values[name] = several[-1] if is_single else several
        if not is_single and name in model.model_fields.keys() - lists:
            detail = f"is given {len(several)} times; give it once"
            repeated.append(FieldError(parameter=name, detail=detail))
    if repeated:
        raise problem_of_fields("query", repeated, len(repeated))
    return validated(model, values, "query")


def validated(model: type[Q], content: object, what: str) -> Q:
    """Validate the query or the body; raise a `ProblemError` that lists all that is wrong."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _invalid(error, model, what) from None


@cache
def list_names(model: type[BaseModel]) -> set[str]:
    """Return the names of the parameters that can be repeated."""
    return {name for name, it in model.model_fields.items() if Names in get_args(it.annotation)}


def _invalid(error: ValidationError, model: type[BaseModel], what: str) -> ProblemError:
    """Return the problem that lists what pydantic says is wrong with a request."""
    errors = error.errors(include_url=False)
    found = sorted(errors, key=lambda it: it["type"] != "extra_forbidden")
    known = ", ".join(model.model_fields) or "none"
    shown: list[FieldError] = []
    for each in found[:_SHOWN_ERRORS]:
        where, detail = each["loc"], _message(each["msg"])
        if each["type"] == "extra_forbidden":
            detail = f"is not known; known are {known}"
        elif each["type"] in {"dict_type", "model_type"}:
            detail = "input should be an object"
        if what == "body":
            pointer = "".join(f"/{_escaped(part)}" for part in where)
            shown.append(FieldError(pointer=pointer, detail=detail))
            continue
        cause = each.get("ctx", {}).get("error")
        name = cause.alias if isinstance(cause, AliasError) else str(where[0])[:_SHOWN]
        shown.append(FieldError(parameter=name, detail=detail))
    return problem_of_fields(what, shown, len(found))


def problem_of_fields(what: str, shown: list[FieldError], count: int) -> ProblemError:
    """Return the problem with some errors of the query or the body, of which there are `count`."""
    told = "; ".join(f"{each.parameter or each.pointer or 'it'}: {each.detail}" for each in shown)
    more = f"; and {count - len(shown)} more" if count > len(shown) else ""
    return ProblemError(422, f"the {what} is invalid: {told}{more}", errors=shown)


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text[:1].lower() + text[1:]


def _escaped(part: str | int) -> str:
    return str(part)[:_SHOWN].replace("~", "~0").replace("/", "~1")
