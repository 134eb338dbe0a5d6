"""The JSON API: the operations as endpoints of FastAPI, and the models of its answers."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body, FastAPI, Path, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from pydantic_core import from_json
from starlette.requests import Request  # noqa: TC002 - read by FastAPI
from starlette.responses import Response
from toolindex import ToolIndexError

from pytools_hybrid.index import Recording
from pytools_hybrid.search import SearchMode, SearchResponse, ToolDescription
from pytools_hybrid.serve.http._access import IS_ANONYMOUS
from pytools_hybrid.serve.http._parameters import (
    EXAMPLE_ID,
    CallBody,
    DescribeQuery,
    NoParameters,
    OutcomeReport,
    Parameters,
    SearchQuery,
    StatisticsQuery,
    ToolSearchQuery,
    read_query,
    search_arguments,
    validated,
)
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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.http._limits import SearchLimit
    from pytools_hybrid.serve.http._metrics import Metrics

_LANGUAGES = {"python", "py", "python3"}
_UNAVAILABLE = 503
_QUEUED_SECONDS = 0.01
_RECORDED_STATUS = {Recording.WRITTEN: 201, Recording.PENDING: 202}
# Parameters that are no filters.
_NO_FILTERS = {"q", "query", "limit", "top_k", "mode", "use_llm"}
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
_ALWAYS = (401, 403, 421, 422, 500)
_BODY = (400, 408, 413, 415)


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
    channels: Annotated[
        list[str] | None, Field(description="The channels that a search would use now")
    ] = None
    notes: list[str] | None = None


class CallAnswer(BaseModel):
    """The answer of the tool's MCP server: a `CallToolResult` of the protocol."""

    content: list[dict[str, Any]] = Field(description="Texts, images, audio, resources and links")
    structured_content: Annotated[
        Any, Field(alias="structuredContent", description="The result as JSON, if it has any")
    ] = None
    is_error: Annotated[
        bool, Field(alias="isError", description="Whether the tool reports a failure")
    ] = False


class ApiRoute(APIRoute):
    """An endpoint whose requests we read: FastAPI, which describes them, would take twice as long.

    Each has a model of its query, and may have parameters in its path and a model of its body.
    """

    methods: set[str]

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that refuses invalid requests with problem details."""
        names, body = self.dependant, self.body_field
        query = names.query_params[0]
        model: Any = query.field_info.annotation

        async def answer(request: Request) -> Response:
            given: dict[str, Any] = dict(request.path_params)
            if names.request_param_name is not None:
                given[names.request_param_name] = request
            content = await _read_json(request) if body is not None else None
            given[query.name] = read_query(model, request)
            if body is not None:
                of_body: Any = body.field_info.annotation
                given[names.body_params[0].name] = validated(of_body, content, "body")
            return await self.endpoint(**given)

        return answer


async def _read_json(request: Request) -> object:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "send application/json", headers={"Accept": "application/json"})
    try:
        # It refuses lone surrogates, unlike `json`.
        return from_json(await request.body())
    except ValueError:
        raise ProblemError(400, "the body is not valid JSON") from None


class SearchEndpoints:
    """Answers searches."""

    def __init__(self, service: Service, slots: SearchLimit) -> None:
        self.service = service
        self._slots = slots

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a free slot, and until the index is up to date."""
        async with self._slots.taken():
            await self.service.follower.wait_until_ready()
            yield

    async def found(
        self,
        request: Request,
        arguments: SearchArguments,
        *,
        rerank: bool | None = None,
        record: bool = True,
    ) -> tuple[SearchResponse, float]:
        """Search once a slot is free; the arguments are those of `ToolSearch.search`.

        Returns:
            The response, and how many milliseconds it took.

        Raises:
            ProblemError: Too many searches are queued, or the client has disconnected.
            IndexNotReadyError: Nothing was found, and the index is still being filled.
            UnknownCategoryError: No tool is in a category of the filter.
        """
        asked = time.perf_counter()
        async with self.turn():
            started = time.perf_counter()
            # Asking takes a tenth of a search's time, and hardly any client leaves at once.
            if started - asked > _QUEUED_SECONDS and await request.is_disconnected():
                raise ProblemError(408, "the client has disconnected")
            response = await SEARCH.run(self.service, arguments, rerank=rerank, record=record)
            return response, 1000 * (time.perf_counter() - started)

    async def answer(
        self,
        request: Request,
        given: Parameters,
        *,
        rerank: bool | None = None,
        language: str | None = None,
    ) -> Response:
        """Answer a request for a search."""
        arguments, search = search_arguments(given), self.service.search
        if rerank and search.settings.rerank_model is None:
            raise ProblemError(409, "no language model to rerank with: set PYTOOLS_RERANK_MODEL")
        if language is not None and language.lower() not in _LANGUAGES:
            note = f"all tools are written in Python, none in {language!r}: leave language out"
            state = await search.index.state()
            response = SearchResponse(
                tools=(), notes=(note,), generation=state.generation, coverage=state.coverage
            )
            milliseconds = 0.0
        else:
            response, milliseconds = await self.found(request, arguments, rerank=rerank)
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


Id = Annotated[
    str,
    Path(
        description="The tool's id, or another system's spelling, such as github__create_issue",
        examples=[EXAMPLE_ID],
        json_schema_extra={"minLength": 1},
    ),
]
Nothing = Annotated[NoParameters, Query()]


def _add(
    api: FastAPI,
    path: str,
    endpoint: Callable[..., Awaitable[Response]],
    summary: str,
    *problems: int,
    name: str,
    method: str = "GET",
    **answers: tuple[str, Any],
) -> None:
    """Add an endpoint, with the description and the model of each of its answers, by status."""
    described: dict[int | str, dict[str, Any]] = {
        int(status.removeprefix("status_")): {"description": text, **_content(model)}
        for status, (text, model) in answers.items()
    }
    for status in (*problems, *_ALWAYS):
        problem = {"description": _PROBLEMS[status], "model": ProblemDetails}
        described.setdefault(status, problem)
    api.add_api_route(
        path,
        endpoint,
        methods=[method],
        operation_id=name,
        summary=summary,
        response_class=Response,
        response_model=None,
        responses=described,
    )
    route = api.routes[-1]
    if isinstance(route, ApiRoute) and method == "GET":
        route.methods.add("HEAD")


def add_status(api: FastAPI, search: ToolSearch | None, metrics: Metrics) -> None:
    """Add the endpoints that every server has."""

    async def health(request: Request, _: Nothing) -> Response:
        content: dict[str, Any] = {"status": "ok"}
        status = 200
        if search is not None:
            try:
                content = await _health(search)
            except ToolIndexError as error:
                content, status = {"status": "failing", "notes": [str(error)]}, _UNAVAILABLE
        if request.scope.get(IS_ANONYMOUS):
            content = {"status": content["status"]}
        headers = {"Retry-After": "5"} if status == _UNAVAILABLE else None
        return json_response(content, status=status, headers=headers)

    async def exposition(_: Nothing) -> Response:
        told = await asyncio.to_thread(metrics.exposition)
        from prometheus_client import CONTENT_TYPE_LATEST

        return Response(told, media_type=CONTENT_TYPE_LATEST)

    async def openapi(_: Nothing) -> Response:
        return json_response(api.openapi())

    _add(
        api,
        "/health",
        health,
        "Return the server's health; without the token, only its status",
        name="health",
        status_200=("The server works", Health),
        status_503=("It cannot search", Health),
    )
    text = {"type": "string", "description": "Prometheus' text format"}
    _add(
        api,
        "/metrics",
        exposition,
        "Return the metrics, for Prometheus",
        503,
        name="metrics",
        status_200=("The figures", {"text/plain": {"schema": text}}),
    )
    document = {"type": "object", "description": "This document"}
    _add(
        api,
        "/openapi.json",
        openapi,
        "Return this document",
        name="openapi",
        status_200=("OpenAPI 3.1", {"application/json": {"schema": document}}),
    )


async def _health(search: ToolSearch) -> dict[str, Any]:
    state = await _index_state(search)
    has_vectors = search.uses_vectors(SearchMode.HYBRID) and state["coverage"]["vectors"] > 0
    failure = search.index.sync.failure
    away = await search.index.server_unreachable()
    stale = away or (failure and f"the index may be out of date ({failure})")
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


def add_operations(api: FastAPI, searches: SearchEndpoints) -> None:
    """Add the endpoints over an index."""
    service = searches.service
    plain = replace(service, caller=None)

    async def short(request: Request, given: Annotated[SearchQuery, Query()]) -> Response:
        return await searches.answer(request, given)

    async def filtered(request: Request, given: Annotated[ToolSearchQuery, Query()]) -> Response:
        return await searches.answer(request, given, rerank=given.use_llm, language=given.language)

    async def describe(id: Id, given: Annotated[DescribeQuery, Query()]) -> Response:  # noqa: A002
        described = await DESCRIBE.run(plain, DescribeArguments.of(given, id=id))
        return json_response(described.model_dump(exclude_none=True))

    async def call(id: Id, _: Nothing, given: Annotated[CallBody, Body()]) -> Response:  # noqa: A002
        result = await CALL.run(service, CallArguments.of(given, id=id))
        return json_response(result.model_dump(by_alias=True, exclude_none=True, mode="json"))

    async def report(_: Nothing, given: Annotated[OutcomeReport, Body()]) -> Response:
        outcome = await REPORT.run(service, OutcomeArguments.of(given))
        return json_response(
            outcome.model_dump(mode="json"), status=_RECORDED_STATUS.get(outcome.state, 200)
        )

    async def statistics(given: Annotated[StatisticsQuery, Query()]) -> Response:
        record = await service.search.index.statistics(since=given.since)
        content = asdict(record) | {
            "share_without_results": record.share_without_results,
            "acceptance_rate": record.acceptance_rate,
            "tools": [
                asdict(tool) | {"success_rate": tool.success_rate}
                for tool in record.tools
                if service.search.policy.passes_id(tool.tool_id)
            ],
            **await _index_state(service.search),
        }
        return json_response(content)

    found = ("Tools, best first", SearchAnswer)
    add = partial(_add, api)
    add("/search", short, "Find tools by what they do", 503, name="search", status_200=found)
    add(
        "/api/v1/tools/search",
        filtered,
        "Find tools by what they do, with filters",
        *(404, 409, 503),
        name=SEARCH.name,
        status_200=found,
    )
    if service.caller is not None:
        add(
            "/api/v1/tools/{id:path}/call",
            call,
            "Call a tool on its MCP server",
            *(*_BODY, 404, 409, 502, 503),
            name=CALL.name,
            method="POST",
            status_200=("The server's answer, even if the tool failed", CallAnswer),
        )
    # An id contains file names, and any other string needs an answer too.
    add(
        "/api/v1/tools/{id:path}",
        describe,
        "Describe a tool",
        *(404, 409, 503),
        name=DESCRIBE.name,
        status_200=("The tool", ToolDescription),
    )
    add(
        "/api/v1/stats",
        statistics,
        "Summarize the usage record",
        503,
        name="statistics",
        status_200=("The usage record in numbers", Statistics),
    )
    add(
        "/api/v1/outcomes",
        report,
        "Report whether a tool worked",
        *(*_BODY, 404, 409, 503),
        name=REPORT.name,
        method="POST",
        status_200=("Accepted but not recorded: the usage record is off or read-only", Outcome),
        status_201=("Written", Outcome),
        status_202=("Accepted, to be recorded once the index is writable", Outcome),
    )


def _content(model: Any) -> dict[str, Any]:  # noqa: ANN401 - a model or the content
    return {"content": model} if isinstance(model, dict) else {"model": model}


class _Api(FastAPI):
    has_token = False

    def openapi(self) -> dict[str, Any]:
        """Return the document, which is made when it is first asked for."""
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
        for methods in document["paths"].values():
            for operation in methods.values():
                if not self.has_token:
                    del operation["responses"]["401"]
                for parameter in operation.get("parameters", ()):
                    # It is left out, and cannot be null.
                    schema = parameter["schema"]
                    choices = [it for it in schema.pop("anyOf", ()) if it != {"type": "null"}]
                    parameter["schema"] = {**dict(*choices), **schema}
                for response in operation["responses"].values():
                    content = response.get("content", {})
                    of_json = content.get("application/json", {}).get("schema", {})
                    if of_json.get("$ref", "").endswith("/ProblemDetails"):
                        content[MEDIA_TYPE] = content.pop("application/json")
        if self.has_token:
            scheme = {
                "type": "http",
                "scheme": "bearer",
                "description": "The server's PYTOOLS_TOKEN",
            }
            document["components"]["securitySchemes"] = {"token": scheme}
            document["security"] = [{"token": []}]
            document["paths"]["/health"]["get"]["security"] = [{}, {"token": []}]
        return document


def create_api(*, has_token: bool = False, **options: Any) -> FastAPI:  # noqa: ANN401 - of FastAPI
    """Create the application without endpoints."""
    api = _Api(
        title="pytools-hybrid",
        version=version("pytools-hybrid"),
        summary="Finds Python tools by what they do.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        # Its pages load scripts from a CDN; the document has an endpoint of ours.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        # Requests are traced by ours, and only if the program has set an exporter up.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        **options,
    )
    api.router.route_class = ApiRoute
    api.has_token = has_token
    return api
