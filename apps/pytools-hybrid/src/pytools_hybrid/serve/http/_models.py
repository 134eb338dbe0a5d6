"""The models of responses in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from pytools_hybrid.index import Recording  # noqa: TC001 - the type of a field
from pytools_hybrid.serve.operations import API_FIELDS, ToolResult, offered


class CoverageModel(BaseModel):
    """How many tools the index has, and how many can be found by vectors."""

    tools: int
    vectors: int


_FoundTool: Any = offered("FoundTool", ToolResult, {name: name for name in API_FIELDS}, BaseModel)


class SearchMetadataModel(BaseModel):
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


class SearchAnswerModel(BaseModel):
    """The tools found, best first."""

    query: str
    results: list[_FoundTool]  # pyright: ignore[reportInvalidTypeForm]
    metadata: SearchMetadataModel


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


class StatisticsModel(BaseModel):
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


class HealthModel(BaseModel):
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


class OutcomeModel(BaseModel):
    """The result of reporting an outcome."""

    tool_id: str = Field(description="The tool's full id")
    recorded: bool = Field(description="Whether the outcome was recorded")
    state: Recording = Field(
        description=(
            "written; pending while the index cannot be written; off or read-only: not recorded"
        )
    )


class CallAnswerModel(BaseModel):
    """The answer of the tool's MCP server: a `CallToolResult` of the protocol."""

    content: list[dict[str, Any]] = Field(description="Texts, images, audio, resources and links")
    structured_content: Annotated[
        Any, Field(alias="structuredContent", description="The result as JSON, if it has any")
    ] = None
    is_error: Annotated[
        bool, Field(alias="isError", description="Whether the tool reports a failure")
    ] = False
