"""The endpoints that search."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolindex import ToolFilter

from pytools_hybrid.errors import IndexNotReadyError
from pytools_hybrid.search import Scope, SearchMode, check_categories
from pytools_hybrid.serve.http._json import index_state, json_response
from pytools_hybrid.serve.http._parameters import SearchQuery, ToolSearchQuery, read_query
from pytools_hybrid.serve.http._problems import ProblemError
from pytools_hybrid.serve.operations import API_FIELDS, shared_meta, tool_results

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import SearchResponse, ToolSearch
    from pytools_hybrid.serve.http._limits import Slots

_LANGUAGES = {"python", "py", "python3"}


class Searches:
    """Answers searches."""

    def __init__(self, search: ToolSearch, follower: Follower, slots: Slots) -> None:
        self._search = search
        self._follower = follower
        self._slots = slots

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a free slot, and until the index is up to date."""
        async with self._slots.taken():
            await self._follower.ready()
            yield

    async def short(self, request: Request) -> Response:
        """Answer `GET /search`."""
        asked = read_query(SearchQuery, request)
        response, milliseconds = await self.found(
            request,
            asked.q,
            mode=asked.mode,
            scope=asked.scope,
            limit=asked.limit if "limit" in asked.model_fields_set else None,
            threshold=asked.threshold if "threshold" in asked.model_fields_set else None,
        )
        given = asked.model_dump(mode="json", exclude={"q", "limit", "mode"}, exclude_defaults=True)
        return self._answer(asked.q, response, filters=given, milliseconds=milliseconds)

    async def filtered(self, request: Request) -> Response:
        """Answer `GET /api/v1/tools/search`."""
        asked = read_query(ToolSearchQuery, request)
        where = ToolFilter(
            categories=asked.category or (),
            tags=asked.tags or (),
            max_latency_ms=asked.max_latency_ms,
            min_success_rate=asked.min_success_rate,
            unknown=asked.unknown,
        )
        if asked.use_llm and self._search.settings.rerank_model is None:
            raise ProblemError(
                409, "no language model to rerank with: start the server with --rerank"
            )
        given = asked.model_dump(
            mode="json", exclude={"query", "top_k", "use_llm"}, exclude_defaults=True
        )
        if asked.language is not None and asked.language.lower() not in _LANGUAGES:
            return await self._none_in(asked, given)
        response, milliseconds = await self.found(
            request,
            asked.query,
            where=where,
            limit=asked.top_k if "top_k" in asked.model_fields_set else None,
            threshold=asked.threshold,
            rerank=asked.use_llm,
        )
        return self._answer(asked.query, response, filters=given, milliseconds=milliseconds)

    async def found(
        self,
        request: Request,
        query: str,
        *,
        limit: int | None,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        where: ToolFilter | None = None,
        threshold: float | None = None,
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
        async with self.turn():
            if await request.is_disconnected():
                raise ProblemError(408, "the client has disconnected")
            if where is not None:
                await self._check_categories(tuple(where.categories))
            started = time.perf_counter()
            response = await self._search.search(
                query,
                mode=mode,
                scope=scope,
                where=where,
                limit=limit,
                threshold=threshold,
                rerank=rerank,
                record=record,
            )
            seconds = time.perf_counter() - started
        if response.early:
            raise IndexNotReadyError(response.early)
        return response, 1000 * seconds

    def _answer(
        self,
        query: str,
        response: SearchResponse,
        *,
        filters: Mapping[str, Any],
        milliseconds: float,
    ) -> Response:
        shown = tool_results(response, self._search.roots, API_FIELDS)
        results = [result.as_dict(API_FIELDS) for result in shown]
        rerank = response.rerank
        metadata = {
            "result_count": len(results),
            "used_llm_rerank": rerank is not None and rerank.applied,
            "filters_applied": dict(filters),
            **shared_meta(response),
            "latency_ms": round(milliseconds, 3),
            "rerank": rerank.as_dict() if rerank is not None else None,
        }
        return json_response({"query": query, "results": results, "metadata": metadata})

    async def _none_in(self, asked: ToolSearchQuery, given: Mapping[str, Any]) -> Response:
        note = f"all tools are written in Python, none in {asked.language!r}: leave language out"
        metadata = {
            "result_count": 0,
            "used_llm_rerank": False,
            "filters_applied": dict(given),
            "search_id": None,
            **await index_state(self._search),
            "channels": [],
            "model": "",
            "lost": [],
            "notes": [note],
            "latency_ms": 0.0,
            "rerank": None,
        }
        return json_response({"query": asked.query, "results": [], "metadata": metadata})

    async def _check_categories(self, asked: Sequence[str]) -> None:
        """Refuse a category that does not exist, unless the index is still being filled."""
        if not asked or self._search.index.sync.filling is not None:
            return
        check_categories(asked, {count.category for count in await self._search.categories()})
