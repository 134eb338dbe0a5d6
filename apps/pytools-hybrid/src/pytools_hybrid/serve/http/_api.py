"""The JSON API: the operations as endpoints of FastAPI, their parameters, and their answers."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from fastapi import Body, FastAPI, Path, Query
from fastapi.routing import APIRoute
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
from pydantic_core import from_json
from starlette.requests import Request  # noqa: TC002 - read by FastAPI
from starlette.responses import Response
from toolindex import ToolIndexError

from pytools_hybrid.index import Recording
from pytools_hybrid.search import MAX_NAMES, SearchMode, SearchResponse, ToolDescription
from pytools_hybrid.serve.http._access import IS_ANONYMOUS
from pytools_hybrid.serve.http._problems import (
    MEDIA_TYPE,
    ProblemDetails,
    ProblemError,
    json_response,
)
from pytools_hybrid.serve.operations import (
    API_FIELDS,
    CALL,
    DESCRIBE,
    REPORT,
    SEARCH,
    CallArguments,
    DescribeArguments,
    Outcome,
    OutcomeArguments,
    SearchArguments,
    Service,
    ToolResult,
    offered,
    result_values,
    shared_meta,
)
from pytools_hybrid.settings import renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from fastapi._compat import ModelField

    from pytools_hybrid.search import ToolSearch

M = TypeVar("M", bound=BaseModel)

_LONGEST_QUERY = 2_000
_LONGEST_NAME = 500
_LATEST = 1e11
_LANGUAGES = {"python", "py", "python3"}
_RECORDED_STATUS = {Recording.WRITTEN: 201, Recording.PENDING: 202}
_EXAMPLE_ID = "mcptools:github:create_issue"
Id = Annotated[
    str,
    Path(
        description="The tool's id, or another system's spelling, such as github__create_issue",
        examples=[_EXAMPLE_ID],
        json_schema_extra={"minLength": 1},
    ),
]
# The names of a search's arguments in URLs, and the parameters that are no filters.
_ARGUMENTS = {"q": "query", "top_k": "limit", "category": "categories"}
_NO_FILTERS = {"q", "query", "limit", "top_k", "mode", "use_llm"}
# pydantic would read ` 1_0 ` as ten; these are the numbers of JSON.
_NOTATIONS: dict[type, tuple[str, str, Callable[[str], Any]]] = {
    int: ("-?(0|[1-9][0-9]{0,20})", "a whole number", int),
    float: (
        r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?",
        "a number",
        float,
    ),
    bool: ("true|false", "true or false", "true".__eq__),
}
_PROBLEMS = {
    400: "The body is not valid JSON",
    401: "The token is missing or wrong",
    403: "Pages from that origin are not allowed",
    404: "No tool has that name",
    408: "The body did not arrive in time",
    409: "Several tools have that name, or the server is not configured for it",
    413: "The body is too large",
    415: "The body is not application/json",
    421: "The host name is not allowed",
    422: "The request is invalid; errors lists what is wrong",
    500: "The server failed",
    502: "The tool's MCP server could not be reached, or gave an invalid answer",
    503: "Too many requests, or the index cannot be read; try again",
}
_OF_BODIES = (400, 408, 413, 415)


# Parameters


def _split(names: list[str]) -> list[str]:
    split = [name.strip(" ") for each in names for name in each.split(",")]
    if not all(split):
        raise ValueError("a name is empty")
    return split


_Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=_LONGEST_NAME,
        pattern="^[^,]*[^,\\s][^,]*(,[^,]*[^,\\s][^,]*)*$",
    ),
]
Names = Annotated[list[_Name], Field(max_length=MAX_NAMES), AfterValidator(_split)]
"""Names as a repeated parameter, or separated by commas."""


class Parameters(BaseModel):
    """The parameters in the query of a URL, each of which is validated as a list of strings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, given: dict[str, Any]) -> dict[str, Any]:
        return renamed(given, cls.model_fields)

    @field_validator("*", mode="before")
    @classmethod
    def _read(cls, values: list[str], info: ValidationInfo) -> object:
        annotation = cls.model_fields[info.field_name or ""].annotation
        kinds = (annotation, *get_args(annotation))
        if Names in kinds:
            return values
        if len(values) > 1:
            raise ValueError(f"is given {len(values)} times; give it once")
        for kind, (pattern, what, read) in _NOTATIONS.items():
            if kind in kinds:
                if not re.fullmatch(pattern, values[0], re.ASCII):
                    raise ValueError(f"give {what}")
                return read(values[0])
        return values[0]


def search_parameters(*names: str) -> type[Parameters]:
    """Return a model of some arguments of a search, by their names in URLs."""
    query = Annotated[
        str,
        Field(max_length=_LONGEST_QUERY, description="What the tool should do, in plain language"),
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


def search_arguments(given: Parameters) -> SearchArguments:
    """Return the arguments of a search by their own names."""
    return SearchArguments.of(given, _ARGUMENTS)


class SearchQuery(search_parameters("q", "limit", "threshold", "mode", "scope")):
    """A short search."""


class ToolSearchQuery(
    search_parameters(
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
            max_length=100,
            description="The language that tools are written in; all of them are Python",
        ),
    ] = None


class DescribeQuery(offered(DescribeArguments, {"detail": "detail"}, Parameters)):
    """Parameters of a description."""


class StatisticsQuery(Parameters):
    """Parameters of the statistics."""

    since: Annotated[
        float | None,
        Field(ge=0, le=_LATEST, description="Leave out older records, in seconds since 1970"),
    ] = None


class OutcomeReport(OutcomeArguments):
    """The outcome of using a tool."""

    tool_id: Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME, examples=[_EXAMPLE_ID])]


class CallBody(offered(CallArguments, {"arguments": "arguments"}, BaseModel), extra="forbid"):
    """The arguments of a call."""


def read_query(model: type[M], request: Request, *, is_form: bool = False) -> M:
    """Parse the query of a URL; in that of a form, an empty field counts as missing.

    Raises:
        ProblemError: It lists everything that is wrong with it.
    """
    values: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if value or not is_form:
            values.setdefault(name, []).append(value)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ProblemError.of_fields(error, "query", list(model.model_fields)) from None


async def _read_body(model: type[M], request: Request) -> M:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "send application/json", headers={"Accept": "application/json"})
    try:
        # It refuses lone surrogates, unlike `json`.
        content = from_json(await request.body())
        return model.model_validate(content, strict=True)
    except ValidationError as error:
        raise ProblemError.of_fields(error, "body", list(model.model_fields)) from None
    except ValueError:
        raise ProblemError(400, "the body is not valid JSON") from None


# Answers


class CoverageModel(BaseModel):
    """How many tools the index has, and how many can be found by vectors."""

    tools: int
    vectors: int


class FoundTool(offered(ToolResult, {name: name for name in API_FIELDS}, BaseModel)):
    """A tool that was found, and why."""


class SearchMetadata(BaseModel):
    """Information about an answer."""

    result_count: int
    used_llm_rerank: bool = Field(description="Whether a language model ordered the results")
    filters_applied: dict[str, Any] = Field(description="The filters of the request")
    search_id: str | None = Field(description="Identifies the search when an outcome is reported")
    generation: int = Field(description="The generation of the index that answered")
    coverage: CoverageModel
    channels: list[str] = Field(description="Those that ran")
    model: str = Field(
        description="The embedding model whose vectors were searched; empty if only words were"
    )
    lost: list[str] = Field(description="Channels that failed, and why")
    notes: list[str] = Field(description="What to know about the answer")
    latency_ms: float = Field(description="How long the search took, including time in the queue")
    rerank: dict[str, Any] | None = Field(description="The outcome and cost of reranking")


class SearchAnswer(BaseModel):
    """The tools found, best first."""

    query: str
    results: list[FoundTool]
    metadata: SearchMetadata


class ToolUsageModel(BaseModel):
    """Statistics of a tool's use."""

    tool_id: str
    observations: int
    successes: int
    success_rate: float
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    last_used_at: float = Field(description="Seconds since 1970")


class QueryCountModel(BaseModel):
    """How often a query was asked."""

    query: str
    count: int


class Statistics(BaseModel):
    """The usage record in numbers."""

    searches: int
    without_results: int
    share_without_results: float | None
    queries_without_results: list[QueryCountModel]
    judged: int = Field(description="Searches that have an outcome")
    first_accepted: int = Field(description="Of those, the ones whose first result succeeded")
    acceptance_rate: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    degraded: int = Field(description="Searches in which a channel failed")
    tools: list[ToolUsageModel] = Field(description="The most used first")
    coverage: CoverageModel
    generation: int


class Health(BaseModel):
    """The health of the server; without the token, only its status."""

    status: str = Field(
        description="ok, starting (files are being scanned for the first time), stale, failing"
    )
    generation: int | None = None
    coverage: CoverageModel | None = None
    channels: list[str] | None = Field(None, description="The channels that a search would use now")
    notes: list[str] | None = None


class CallAnswer(BaseModel):
    """The answer of the tool's MCP server: a `CallToolResult` of the protocol."""

    content: list[dict[str, Any]] = Field(description="Texts, images, audio, resources and links")
    structuredContent: Any = Field(None, description="The result as JSON, if it has any")  # noqa: N815
    isError: bool = Field(False, description="Whether the tool reports a failure")  # noqa: N815


# The application


class ApiRoute(APIRoute):
    """An endpoint whose requests we read: FastAPI, which describes them, would take twice as long.

    It may have a model of its query, parameters in its path and a model of its body. An endpoint
    for GET also answers HEAD.
    """

    methods: set[str]

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as there
        super().__init__(*arguments, **options)
        if "GET" in self.methods:
            self.methods.add("HEAD")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that refuses invalid requests with problem details."""
        names = self.dependant
        queries, bodies = _models(names.query_params), _models(names.body_params)

        async def answer(request: Request) -> Response:
            given: dict[str, Any] = dict(request.path_params)
            if names.request_param_name is not None:
                given[names.request_param_name] = request
            for name, model in queries.items():
                given[name] = read_query(model, request)
            if not queries:
                read_query(Parameters, request)
            for name, model in bodies.items():
                given[name] = await _read_body(model, request)
            return await self.endpoint(**given)

        return answer


def _models(parameters: Iterable[ModelField]) -> dict[str, Any]:
    return {it.name: it.field_info.annotation for it in parameters}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {it: {"description": _PROBLEMS[it], "model": ProblemDetails} for it in statuses}


class Api(FastAPI):
    """The application, whose OpenAPI document is made when it is first asked for."""

    def __init__(self, *, has_token: bool, **options: Any) -> None:  # noqa: ANN401 - of FastAPI
        super().__init__(
            title="pytools-hybrid",
            version=version("pytools-hybrid"),
            summary="Finds Python tools by what they do.",
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
            responses=_problems(*((401,) if has_token else ()), 403, 421, 422, 500),
            default_response_class=Response,
            generate_unique_id_function=lambda route: route.name,
            # Its pages load scripts from a CDN; the document has an endpoint of ours.
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            redirect_slashes=False,
            # Requests are traced by ours, and only if the program has set an exporter up.
            telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
            **options,
        )
        self.router.route_class = ApiRoute
        self._has_token = has_token

    def openapi(self) -> dict[str, Any]:
        """Return the document."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        # HEAD would be listed as an operation of its own.
        heads = [
            it.methods for it in self.routes if isinstance(it, ApiRoute) and "HEAD" in it.methods
        ]
        for methods in heads:
            methods.remove("HEAD")
        document = super().openapi()
        for methods in heads:
            methods.add("HEAD")
        for operation in chain.from_iterable(it.values() for it in document["paths"].values()):
            for parameter in operation.get("parameters", ()):
                # It is left out, and cannot be null.
                schema = parameter["schema"]
                choices = [it for it in schema.pop("anyOf", ()) if it != {"type": "null"}]
                parameter["schema"] = {**dict(*choices), **schema}
            for response in operation["responses"].values():
                if "ProblemDetails" in str(response):
                    response["content"] = {MEDIA_TYPE: response["content"]["application/json"]}
        if self._has_token:
            scheme = {
                "type": "http",
                "scheme": "bearer",
                "description": "The server's PYTOOLS_TOKEN",
            }
            document["components"]["securitySchemes"] = {"token": scheme}
            document["security"] = [{"token": []}]
            document["paths"]["/health"]["get"]["security"] = [{}, {"token": []}]
        return document


# Endpoints


def add_status(api: Api, search: ToolSearch | None, exposition: Callable[[], bytes]) -> None:
    """Add the endpoints that every server has.

    Args:
        api: The application.
        search: The search; None for a server without an index.
        exposition: Returns the metrics in Prometheus' text format.
    """

    @api.get(
        "/health",
        summary="Return the server's health; without the token, only its status",
        response_description="The server works",
        responses={
            200: {"model": Health},
            503: {"description": "It cannot search", "model": Health},
        },
    )
    async def health(request: Request) -> Response:
        content: dict[str, Any] = {"status": "ok"}
        status, headers = 200, None
        if search is not None:
            try:
                content = await _health(search)
            except ToolIndexError as error:
                content = {"status": "failing", "notes": [str(error)]}
                status, headers = 503, {"Retry-After": "5"}
        if request.scope.get(IS_ANONYMOUS):
            content = {"status": content["status"]}
        return json_response(content, status=status, headers=headers)

    text = {"schema": {"type": "string", "description": "Prometheus' text format"}}

    @api.get(
        "/metrics",
        summary="Return the metrics, for Prometheus",
        response_description="The figures",
        responses={200: {"content": {"text/plain": text}}, **_problems(503)},
    )
    async def metrics() -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST

        return Response(await asyncio.to_thread(exposition), media_type=CONTENT_TYPE_LATEST)

    document = {"schema": {"type": "object", "description": "This document"}}

    @api.get(
        "/openapi.json",
        summary="Return this document",
        response_description="OpenAPI 3.1",
        responses={200: {"content": {"application/json": document}}},
    )
    async def openapi() -> Response:
        return json_response(api.openapi())


async def _health(search: ToolSearch) -> dict[str, Any]:
    state = await _index_state(search)
    has_vectors = search.uses_vectors(SearchMode.HYBRID) and state["coverage"]["vectors"] > 0
    failure = search.index.sync.failure
    unreachable = await search.index.server_unreachable()
    stale = unreachable or (failure and f"the index may be out of date ({failure})")
    status = "starting" if search.index.sync.is_first_scan else "ok"
    return {
        "status": "stale" if stale else status,
        **state,
        "channels": ["bm25", *(["vector"] if has_vectors else []), "fuzzy"],
        "notes": [stale] if stale else [],
    }


async def _index_state(search: ToolSearch) -> dict[str, Any]:
    state = await search.index.state()
    return {
        "generation": state.generation,
        "coverage": {"tools": state.coverage.tools, "vectors": state.coverage.vectors},
    }


def add_operations(api: Api, service: Service) -> None:
    """Add the endpoints over an index."""
    search = service.search

    @api.get(
        "/search",
        summary="Find tools by what they do",
        response_description="Tools, best first",
        responses={200: {"model": SearchAnswer}, **_problems(503)},
        name="search",
    )
    async def short_search(given: Annotated[SearchQuery, Query()]) -> Response:
        return await _answer(service, given)

    @api.get(
        "/api/v1/tools/search",
        summary="Find tools by what they do, with filters",
        response_description="Tools, best first",
        responses={200: {"model": SearchAnswer}, **_problems(404, 409, 503)},
    )
    async def search_tools(given: Annotated[ToolSearchQuery, Query()]) -> Response:
        return await _answer(service, given, rerank=given.use_llm, language=given.language)

    if service.caller is not None:

        @api.post(
            "/api/v1/tools/{id:path}/call",
            summary="Call a tool on its MCP server",
            response_description="The server's answer, even if the tool failed",
            responses={200: {"model": CallAnswer}, **_problems(*_OF_BODIES, 404, 409, 502, 503)},
        )
        async def call_tool(id: Id, given: Annotated[CallBody, Body()]) -> Response:  # noqa: A002
            result = await CALL.run(service, CallArguments.of(given, id=id))
            return json_response(result.model_dump(by_alias=True, exclude_none=True, mode="json"))

    plain = replace(service, caller=None)

    # An id contains file names, and any other string needs an answer too.
    @api.get(
        "/api/v1/tools/{id:path}",
        summary="Describe a tool",
        response_description="The tool",
        responses={200: {"model": ToolDescription}, **_problems(404, 409, 503)},
    )
    async def describe_tool(id: Id, given: Annotated[DescribeQuery, Query()]) -> Response:  # noqa: A002
        described = await DESCRIBE.run(plain, DescribeArguments.of(given, id=id))
        return json_response(described.model_dump(exclude_none=True))

    @api.get(
        "/api/v1/stats",
        summary="Summarize the usage record",
        response_description="The usage record in numbers",
        responses={200: {"model": Statistics}, **_problems(503)},
    )
    async def statistics(given: Annotated[StatisticsQuery, Query()]) -> Response:
        record = await search.index.statistics(since=given.since)
        content = asdict(record) | {
            "share_without_results": record.share_without_results,
            "acceptance_rate": record.acceptance_rate,
            "tools": [
                asdict(tool) | {"success_rate": tool.success_rate}
                for tool in record.tools
                if search.policy.passes_id(tool.tool_id)
            ],
            **await _index_state(search),
        }
        return json_response(content)

    recorded = {
        200: "Accepted but not recorded: the usage record is off or read-only",
        201: "Written",
        202: "Accepted, to be recorded once the index is writable",
    }

    @api.post(
        "/api/v1/outcomes",
        summary="Report whether a tool worked",
        response_description=recorded[200],
        responses={
            **{status: {"description": it, "model": Outcome} for status, it in recorded.items()},
            **_problems(*_OF_BODIES, 404, 409, 503),
        },
    )
    async def report_outcome(given: Annotated[OutcomeReport, Body()]) -> Response:
        outcome = await REPORT.run(service, given)
        return json_response(
            outcome.model_dump(mode="json"), status=_RECORDED_STATUS.get(outcome.state, 200)
        )


async def _answer(
    service: Service,
    given: Parameters,
    *,
    rerank: bool | None = None,
    language: str | None = None,
) -> Response:
    arguments, search = search_arguments(given), service.search
    if rerank and search.settings.rerank_model is None:
        raise ProblemError(409, "no language model to rerank with: set PYTOOLS_RERANK_MODEL")
    started = time.perf_counter()
    if language is None or language.lower() in _LANGUAGES:
        response = await SEARCH.run(service, arguments, rerank=rerank)
    else:
        note = f"all tools are written in Python, none in {language!r}: leave language out"
        state = await search.index.state()
        response = SearchResponse(
            tools=(), notes=(note,), generation=state.generation, coverage=state.coverage
        )
    milliseconds = 1000 * (time.perf_counter() - started)
    results = result_values(response, search.roots, API_FIELDS)
    reranked = response.rerank
    metadata = {
        "result_count": len(results),
        "used_llm_rerank": reranked is not None and reranked.applied,
        "filters_applied": given.model_dump(
            mode="json", exclude=_NO_FILTERS, exclude_defaults=True
        ),
        **shared_meta(response),
        "search_id": response.search_id or None,
        "latency_ms": round(milliseconds, 3),
        "rerank": reranked.as_dict() if reranked is not None else None,
    }
    return json_response({"query": arguments.query, "results": results, "metadata": metadata})
