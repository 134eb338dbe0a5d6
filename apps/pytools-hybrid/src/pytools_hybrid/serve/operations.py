"""What every interface offers: operations with one model each for their arguments and results.

MCP, the JSON API and the console take the parameters of a search from `SearchArguments`, and the
fields of a result from `ToolResult`; each offers some of them, perhaps under another name.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json
from toolindex import ToolFilter

from pytools_hybrid.errors import IndexNotReadyError
from pytools_hybrid.index import Recording
from pytools_hybrid.search import (
    MAX_NAME,
    MAX_NAMES,
    ChannelScore,
    DetailLevel,
    MatchType,
    Scope,
    SearchMode,
    SearchRequest,
    ToolDescription,
    breakdown,
    check_categories,
    reason,
    search_request,
)
from pytools_hybrid.serve.browse import BySource, ToolBrowser
from pytools_hybrid.settings import DEFAULT_LIMIT, MAX_LIMIT, AliasError, renamed
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from mcp.types import CallToolResult

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import FoundTool, SearchResponse, ToolSearch
    from pytools_hybrid.serve.calls import CallContext, ToolCaller
    from pytools_hybrid.settings import Roots, Settings

A = TypeVar("A", bound="Arguments")
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")

META_PREFIX = "pytools/"
"""The prefix of this server's keys in the `_meta` of its answers."""

AGENT_FIELDS = (
    *("name", "category", "source", "description", "score", "confidence", "match_type"),
    *("path", "id", "signature", "also"),
)
"""The fields of a result for an agent that imports tools."""

API_FIELDS = (
    *(*AGENT_FIELDS, "duplicates", "tags", "success_rate", "avg_latency_ms"),
    *("score_breakdown", "reason"),
)
"""The fields of a result for programs and people."""

# A query followed by a long pasted text is still answered; a megabyte would take seconds.
_MOST_CHARACTERS = 100_000
# Each digit costs a token in every answer.
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Brief:
    """The description of an argument for agents, whose contexts include all of them."""

    text: str = ""


class Arguments(BaseModel):
    """The arguments of an operation; unknown names are refused.

    Agents write null for arguments that they leave out, and a single string instead of a list; both
    are accepted. Strings have a maximum length, which a field can lower.
    """

    model_config = ConfigDict(extra="forbid", str_max_length=_MOST_CHARACTERS)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: JsonValue) -> JsonValue:
        if not isinstance(given, dict):
            return given
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        told = {name: it for name, it in given.items() if it is not None or name in required}
        # If both names are present, the alias is kept, and then refused.
        with suppress(AliasError):
            told = renamed(told, cls.model_fields)
        return told

    # These limits are not in the schema, because every agent reads it. The error types are
    # pydantic's.
    @field_validator("categories", "tags", mode="before", check_fields=False)
    @classmethod
    def _one_is_a_list(cls, given: JsonValue) -> JsonValue:
        if isinstance(given, str):
            try:
                several: JsonValue = json.loads(given)
            except (ValueError, RecursionError):
                several = None
            given = several if isinstance(several, list) else [given]
        if isinstance(given, list):
            if len(given) > MAX_NAMES:
                raise PydanticCustomError("too_long", "too many", {"max_length": MAX_NAMES})
            if any(isinstance(it, str) and len(it) > MAX_NAME for it in given):
                raise PydanticCustomError("string_too_long", "too long", {"max_length": MAX_NAME})
        return given

    @classmethod
    def of(
        cls,
        given: BaseModel,
        names: Mapping[str, str] | None = None,
        **more: Any,  # noqa: ANN401 - any arguments
    ) -> Self:
        """Return the arguments that an interface has validated, by their own names.

        Args:
            given: An instance of a model that `offered` has made of this one.
            names: The names here of fields that have another name there.
            **more: Further arguments.
        """
        names = names or {}
        told = {names.get(name, name): value for name, value in given}
        told_names = {names.get(name, name) for name in given.model_fields_set}
        known = {
            name: told[name]
            for name, field in cls.model_fields.items()
            if name in told_names or (field.is_required() and name in told)
        }
        return cls.model_construct(**known, **more)


class NoArguments(Arguments):
    """No arguments."""


class SearchArguments(Arguments):
    """What to search for, and how."""

    query: Annotated[str, Brief("One need, in plain language")] = Field(
        description="What the tool should do, in plain language"
    )
    mode: Annotated[
        Literal["hybrid", "bm25", "vector", "fuzzy"],
        Brief("bm25: words; vector: meaning; hybrid: both; fuzzy: misspelt names"),
    ] = Field("hybrid", description="Which channels to search")
    scope: Annotated[Literal["all", "gentools", "mcptools"], Brief()] = Field(
        "all", description="Whose tools"
    )
    limit: Annotated[int, Brief()] = Field(
        DEFAULT_LIMIT,
        ge=1,
        le=MAX_LIMIT,
        description="Maximum number of results; the default can be configured",
    )
    categories: Annotated[list[str] | None, Brief("Any of these")] = Field(
        None, description="Only tools of any of these categories"
    )
    tags: Annotated[list[str] | None, Brief("All of these")] = Field(
        None, description="Only tools with all of these tags"
    )
    max_latency_ms: Annotated[float | None, Brief()] = Field(
        None, ge=0, allow_inf_nan=False, description="Maximum median latency"
    )
    min_success_rate: Annotated[float | None, Brief()] = Field(
        None, ge=0, le=1, description="Minimum share of successes"
    )
    unknown: Annotated[Literal["include", "exclude"], Brief("Without data for these")] = Field(
        "include", description="Tools without recorded calls: include or exclude"
    )
    threshold: Annotated[float | None, Brief("Least confidence")] = Field(
        None, ge=0, le=1, description="Minimum confidence; by default the server's setting"
    )
    detail: Annotated[Literal["full", "summary"], Brief()] = Field(
        "full", description="How much of each docstring"
    )

    def request(self, settings: Settings) -> SearchRequest:
        """Return the request, with what the settings say about the rest.

        Raises:
            ArgumentError: An invalid filter.
        """
        where = ToolFilter(
            categories=self.categories or (),
            tags=self.tags or (),
            max_latency_ms=self.max_latency_ms,
            min_success_rate=self.min_success_rate,
            unknown=self.unknown,
        )
        asked = SearchRequest(
            text=self.query,
            mode=SearchMode(self.mode),
            where=where,
            limit=self.limit if "limit" in self.model_fields_set else settings.limit,
            min_confidence=settings.threshold if self.threshold is None else self.threshold,
        )
        return search_request(settings, asked, Scope(self.scope))


class DescribeArguments(Arguments):
    """Which tool to describe, and in how much detail."""

    id: str = Field(description="Or a name that only one tool has")
    detail: Annotated[
        Literal["summary", "schema", "full"], Brief("full adds docstring, examples, usage")
    ] = Field("schema", description="How much to return")


class CallArguments(Arguments):
    """Which tool to call, with which arguments."""

    id: str = Field(description="From search_tools")
    arguments: dict[str, Any] = Field({}, description="As the tool's input says")

    @field_validator("arguments", mode="before")
    @classmethod
    def _one_text_is_json(cls, given: object) -> object:
        # Some models write objects as JSON text; other text is refused as usual.
        if isinstance(given, str):
            with suppress(ValueError):
                return from_json(given)
        return given


class OutcomeArguments(Arguments):
    """The outcome of using a tool."""

    tool_id: str
    success: Annotated[bool, Brief()] = Field(description="Whether the tool worked")
    latency_ms: Annotated[float | None, Brief()] = Field(
        None, ge=0, allow_inf_nan=False, description="How long it took"
    )
    search_id: Annotated[str | None, Brief()] = Field(
        None, max_length=200, description="The search that found it"
    )


class ListArguments(Arguments):
    """The categories whose tools to list."""

    categories: list[str]


def offered(
    model: type[BaseModel], fields: Mapping[str, str], base: type[M], **changed: tuple[Any, Any]
) -> type[M]:
    """Create a model of some fields of another, in order.

    Args:
        model: The model that has the fields.
        fields: The names of the fields there, by their new names.
        base: The base of the new model.
        **changed: The type and default of new fields that differ.
    """
    made: dict[str, Any] = {}
    for new, old in fields.items():
        field = copy(model.model_fields[old])
        made[new] = changed.get(new, (field.annotation, field))
    return create_model(model.__name__, __base__=base, **made)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


class ToolResult(BaseModel, defer_build=True):
    """A tool that a search has found; each interface includes some of the fields."""

    name: str = Field(description="As in 'create_issue'")
    category: str = Field(description="As in 'github'")
    source: str = Field(description="'mcptools' or 'gentools'")
    description: str = Field(description="Docstring, or its summary")
    score: float = Field(ge=0, le=1, description="The first's confidence; others as they fit")
    confidence: float = Field(ge=0, le=1, description="How likely the tool does this")
    match_type: MatchType = Field(description="How it was found")
    path: str = Field(description="Source file")
    id: str = Field(description="source:category:name")
    signature: str = Field(description="Of the function to call")
    also: list[str] | None = Field(None, description="Ids of equal tools of other servers")
    note: str | None = Field(None, description="What to know about the answer")
    hints: list[str] | None = Field(None, description="Its server's hints")
    input_schema: dict[str, Any] | None = Field(None, description="Of its arguments")
    input: str | None = Field(None, description="Its arguments in a line")
    not_callable: str | None = Field(None, description="Why this server cannot call it")
    duplicates: list[str] = Field(
        description="Ids of near-identical tools of its server that were left out"
    )
    tags: list[str] = Field(description="The tags that the tool declares")
    success_rate: float | None = Field(
        ge=0, le=1, description="The share of successes among its outcomes; null without any"
    )
    avg_latency_ms: float | None = Field(
        ge=0, description="The mean latency of its successes; null without any"
    )
    score_breakdown: dict[str, ChannelScore] = Field(description="By channel")
    reason: str = Field(description="Why it was found, in one line")


_VALUES: Mapping[str, Callable[[FoundTool, Roots], Any]] = {
    "name": lambda found, _: found.name,
    "category": lambda found, _: found.category,
    "source": lambda found, _: found.source,
    "description": lambda found, _: readable(found.description),
    "score": lambda found, _: _rounded(found.score),
    "confidence": lambda found, _: _rounded(found.confidence),
    "match_type": lambda found, _: found.match_type,
    "path": lambda found, roots: roots.display_path(found.entry.path),
    "id": lambda found, _: found.id,
    "signature": lambda found, _: readable(found.signature),
    "also": lambda found, _: list(found.also) or None,
    "duplicates": lambda found, _: list(found.duplicates),
    "tags": lambda found, _: list(found.entry.tags),
    "success_rate": lambda found, _: found.outcomes and round(found.outcomes.success_rate, 6),
    "avg_latency_ms": lambda found, _: found.outcomes and _rounded(found.outcomes.mean_latency_ms),
    # `asdict` would take ten times as long.
    "score_breakdown": lambda found, _: {
        name: {"rank": it.rank, "score": it.score, "contribution": it.contribution}
        for name, it in breakdown(found).items()
    },
    "reason": lambda found, _: reason(found),
}


def result_values(
    response: SearchResponse, roots: Roots, include: Collection[str] = AGENT_FIELDS
) -> list[dict[str, Any]]:
    """Return some fields of the tools of a response, best first, as JSON values.

    Paths begin with the tree, written as in the settings. What does not apply to a tool is missing.
    """
    results: list[dict[str, Any]] = []
    for found in response.tools:
        values = {name: _VALUES[name](found, roots) for name in include}
        if values.get("also", ()) is None:
            del values["also"]
        results.append(values)
    return results


class CallableDescription(ToolDescription):
    """A tool, with details on calling it through this server."""

    annotations: dict[str, bool] | None = None
    not_callable: str | None = None


class Outcome(BaseModel):
    """The result of reporting an outcome."""

    tool_id: str = Field(description="The tool's full id")
    recorded: bool = Field(description="Whether the outcome was recorded")
    state: Recording = Field(
        description=(
            "written; pending while the index cannot be written; off or read-only: not recorded"
        )
    )


class ListedTools(RootModel[dict[str, BySource]]):
    """The tools of each category."""


def answer_meta(response: SearchResponse, cut: Sequence[str] = ()) -> dict[str, Any]:
    """Return the metadata of a response for MCP, as JSON values.

    Args:
        response: The response.
        cut: The ids of the tools whose description is cut in the answer.
    """
    duplicates = {str(it.entry.id): list(it.duplicates) for it in response.tools if it.duplicates}
    meta = {**shared_meta(response), "duplicates": duplicates, "cut": list(cut)}
    if response.rerank is not None:
        meta["rerank"] = response.rerank.as_dict()
    return meta


def shared_meta(response: SearchResponse) -> dict[str, Any]:
    """Return the metadata of a response that all interfaces share, as JSON values."""
    return {
        "search_id": response.search_id,
        "generation": response.generation,
        "coverage": {"tools": response.coverage.tools, "vectors": response.coverage.vectors},
        "channels": list(response.channels),
        "model": response.model,
        "lost": list(response.lost),
        "notes": list(response.notes),
    }


@dataclass(frozen=True, slots=True)
class Service:
    """What the operations over an index need.

    Attributes:
        search: An open search.
        follower: Keeps its index up to date.
        caller: Calls tools; None if this server calls none.
    """

    search: ToolSearch
    follower: Follower
    caller: ToolCaller | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[A, R]):
    """Something that can be done through every interface.

    Attributes:
        name: Its name for agents, and in the OpenAPI document.
        title: The name for people.
        arguments: The model of its arguments.
        result: The model of its result, of which an interface may show a part; None for any result.
        run: Does it, given a `Service` or a `ToolBrowser`, and the arguments.
    """

    name: str
    title: str
    arguments: type[A]
    result: type[BaseModel] | None
    run: Callable[..., Awaitable[R]]


async def _search(
    service: Service,
    arguments: SearchArguments,
    progress: Callable[..., Awaitable[None]] | None = None,
    *,
    rerank: bool | None = None,
    record: bool = True,
) -> SearchResponse:
    search = service.search
    await service.follower.wait_until_ready(progress)
    if arguments.categories and search.index.sync.progress is None:
        check_categories(arguments.categories, {it.category for it in await search.categories()})
    request = arguments.request(search.settings)
    response = await search.search(request, rerank=rerank, record=record)
    if response.early:
        # A client that only reads structured content could mistake an empty list for an answer.
        raise IndexNotReadyError(response.early)
    return response


async def _describe(
    service: Service,
    arguments: DescribeArguments,
    progress: Callable[..., Awaitable[None]] | None = None,
) -> ToolDescription:
    await service.follower.wait_until_scanned(progress)
    described = await service.search.describe(arguments.id, DetailLevel(arguments.detail))
    if service.caller is None:
        return described
    tool = await service.caller.find(described.id)
    told = {**described.model_dump(), "annotations": dict(tool.annotations) or None}
    if tool.refusal:
        told["not_callable"] = tool.refusal
    else:
        # Its MCP server's schema instead of the Python signature and schema.
        told |= dict.fromkeys(("signature", "types", "defaults"))
        if described.input_schema is not None:
            told["input_schema"] = dict(tool.schema or {})
    return CallableDescription.model_validate(told)


async def _call(
    service: Service,
    arguments: CallArguments,
    progress: Callable[..., Awaitable[None]] | None = None,
    context: CallContext | None = None,
) -> CallToolResult:
    if service.caller is None:
        raise ValueError("this server calls no tools")
    await service.follower.wait_until_scanned(progress)
    return await service.caller.call(arguments.id, arguments.arguments, context)


async def _report(
    service: Service,
    arguments: OutcomeArguments,
    progress: Callable[..., Awaitable[None]] | None = None,
    search_of: Callable[[str], str | None] | None = None,
) -> Outcome:
    await service.follower.wait_until_scanned(progress)
    tool_id = str((await service.search.find(arguments.tool_id)).id)
    recording = await service.search.record_outcome(
        tool_id,
        success=arguments.success,
        latency_ms=arguments.latency_ms,
        search_id=arguments.search_id or (search_of and search_of(tool_id)),
    )
    is_written = recording is Recording.WRITTEN
    return Outcome(tool_id=tool_id, recorded=is_written, state=recording)


async def _list(browser: ToolBrowser, arguments: ListArguments) -> ListedTools:
    return ListedTools(await asyncio.to_thread(browser.tools, arguments.categories))


async def _categories(browser: ToolBrowser, _: NoArguments) -> BySource:
    return await asyncio.to_thread(browser.categories)


SEARCH = Operation("search_tools", "Search tools", SearchArguments, ToolResult, _search)
DESCRIBE = Operation(
    "describe_tool", "Describe a tool", DescribeArguments, ToolDescription, _describe
)
CALL = Operation("call_tool", "Call a tool", CallArguments, None, _call)
REPORT = Operation("report_outcome", "Report an outcome", OutcomeArguments, Outcome, _report)
LIST = Operation("list_tools", "List tools", ListArguments, ListedTools, _list)
CATEGORIES = Operation("list_categories", "List categories", NoArguments, BySource, _categories)
