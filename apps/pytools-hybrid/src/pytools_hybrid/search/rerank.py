"""Reranking: having a language model order the first results of a search."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from toolembed import Backoff
from toolembed.providers import current_name, redact_keys
from toolrank import ToolRankError
from toolrank.rerank import LLMReranker

from pytools_hybrid.search.types import MatchType, RerankReport
from pytools_hybrid.settings import why_unusable
from pytools_hybrid.telemetry import MODEL_REQUESTS, observe

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from toolrank.rerank import RerankOutcome

    from pytools_hybrid.search.types import FoundTool, SearchRequest, SearchResponse
    from pytools_hybrid.settings import Settings

_CANDIDATES = 10
_AT_ONCE = 4
# Longer texts of a tool are cut.
_PARAMETERS_LENGTH = 200
# How long a model is not called after a failure.
_BACKOFF = Backoff(first=1.0, longest=120.0)


class Reranking:
    """Has a language model order the first tools of an answer.

    The model is not called if the request names the first tool or the lead is clear, and only once
    for the same request. Whatever it answers, no tool is lost. After a failure, the model is not
    called for a while, so that not every search waits for it.

    Args:
        model: A pydantic-ai model, or its name. Nothing is imported or connected before the first
            use.
        certain: The model is not called if the first score is above this.
        gap: Nor if the first score is more than this above the third.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        certain: float = 1.0,
        gap: float = 1.0,
        timeout_s: float = 10.0,
    ) -> None:
        self._model = current_name(model) if isinstance(model, str) else model
        self._certain, self._gap = certain, gap
        self._name = model if isinstance(model, str) else model.model_name
        self._timeout_s = timeout_s
        # The reranker, or why there is none.
        self._reranker: LLMReranker | str | None = None
        self._preparing = asyncio.Lock()
        # Providers refuse too many requests at once, which would count as failures.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._breaker = _BACKOFF.breaker()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._name

    def widened(self, request: SearchRequest) -> SearchRequest:
        """Return a request with a limit that gives the model enough tools to order."""
        return replace(request, limit=max(request.limit, _CANDIDATES))

    async def prepare(self) -> str:
        """Load what the model needs, in a thread; return why it cannot be used, or ""."""
        prepared = await self._prepared()
        return prepared if isinstance(prepared, str) else ""

    async def rerank(self, request: SearchRequest, response: SearchResponse) -> SearchResponse:
        """Return an answer to `widened` of a request in the model's order, cut to the limit.

        Scores stay at their places; everything else moves with the tools. If the model did not
        help, the order is unchanged, and the answer's notes and report say why.
        """
        started = time.perf_counter()
        tools, notes = response.tools, response.notes
        outcome, failure = await self._outcome(request.text, tools)
        # A provider may repeat a key.
        failure = redact_keys(failure)
        if outcome is not None:
            tools = tuple(
                replace(
                    tools[before],
                    score=tools[now].score,
                    moved_from=before + 1 if before != now else None,
                )
                for now, before in enumerate(outcome.order)
            )
        if failure:
            notes = (*notes, f"not reranked by {self._name} ({failure}): ranked without it")
        report = RerankReport(
            model=self._name,
            applied=outcome is not None and outcome.applied,
            reason=failure or redact_keys(outcome.reason if outcome else self._why_not(tools)),
            milliseconds=1000 * (time.perf_counter() - started),
        )
        if outcome is not None:
            report = replace(
                report,
                requests=outcome.requests,
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.output_tokens,
                cost_usd=outcome.cost_usd,
            )
        return replace(response, tools=tools[: request.limit], notes=notes, rerank=report)

    async def _outcome(
        self, text: str, tools: tuple[FoundTool, ...]
    ) -> tuple[RerankOutcome | None, str]:
        """Return the model's order, if it was called, and any failure."""
        if self._why_not(tools):
            return None, ""
        if wait := self._breaker.remaining:
            return None, f"it failed and is not called for another {wait:.0f} s"
        prepared = await self._prepared()
        if isinstance(prepared, str):
            return None, prepared
        async with self._turns:
            with observe(MODEL_REQUESTS, "rerank", self._name) as seen:
                outcome = await prepared.rerank(text, [_text(tool) for tool in tools])
                if outcome.requests or not outcome.applied:
                    seen.outcome = "answered" if outcome.applied else "failed"
        if outcome.requests:
            (self._breaker.succeeded if outcome.applied else self._breaker.failed)()
        return outcome, "" if outcome.applied else outcome.reason

    async def _prepared(self) -> LLMReranker | str:
        async with self._preparing:
            if self._reranker is None:
                try:
                    self._reranker = await asyncio.to_thread(self._load)
                except ToolRankError as error:
                    self._reranker = why_unusable(self._name, error)
            return self._reranker

    def _why_not(self, tools: tuple[FoundTool, ...]) -> str:
        """Return why the model need not be called, or an empty string if it has to be."""
        if len(tools) < 2:
            return "fewer than two tools"
        if tools[0].match_type is MatchType.EXACT:
            return "the request names the first tool"
        scores = [tool.score for tool in tools]
        return LLMReranker.clear_lead(scores, certain=self._certain, gap=self._gap)

    def _load(self) -> LLMReranker:
        return LLMReranker(self._model, candidates=_CANDIDATES, timeout_s=self._timeout_s)


def configured_reranking(settings: Settings) -> Reranking | None:
    """Return the reranking that the settings describe, or None."""
    if settings.rerank_model is None:
        return None
    return Reranking(
        settings.rerank_model, certain=settings.rerank_certain, gap=settings.rerank_gap
    )


def _text(tool: FoundTool) -> str:
    entry = tool.entry
    names = ", ".join(parameter.name for parameter in entry.parameters)[:_PARAMETERS_LENGTH]
    return f"{entry.id}({names}): {entry.description}"
