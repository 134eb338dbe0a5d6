"""The endpoints for health and metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from toolindex import ToolIndexError

from pytools_hybrid.search import SearchMode
from pytools_hybrid.serve.http._json import index_state, json_response
from pytools_hybrid.serve.http._parameters import NoQuery, read_query
from pytools_hybrid.serve.http._security import PUBLIC

if TYPE_CHECKING:
    from starlette.requests import Request

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.http._metrics import Metrics

_UNAVAILABLE = 503


class Status:
    """Reports the health of the server."""

    def __init__(self, search: ToolSearch | None, metrics: Metrics) -> None:
        self._search = search
        self._metrics = metrics

    async def health(self, request: Request) -> Response:
        """Answer `GET /health`."""
        read_query(NoQuery, request)
        content: dict[str, Any] = {"status": "ok"}
        status = 200
        if self._search is not None:
            try:
                content = await self._of_index(self._search)
            except ToolIndexError as error:
                content, status = {"status": "failing", "notes": [str(error)]}, _UNAVAILABLE
        if request.scope.get(PUBLIC):
            content = {"status": content["status"]}
        headers = {"Retry-After": "5"} if status == _UNAVAILABLE else None
        return json_response(content, status=status, headers=headers)

    async def metrics(self, request: Request) -> Response:
        """Answer `GET /metrics`."""
        read_query(NoQuery, request)
        told = await asyncio.to_thread(self._metrics.exposition)
        from prometheus_client import CONTENT_TYPE_LATEST

        return Response(told, media_type=CONTENT_TYPE_LATEST)

    async def _of_index(self, search: ToolSearch) -> dict[str, Any]:
        state = await index_state(search)
        has_vectors = search.uses_vectors(SearchMode.HYBRID) and state["coverage"]["vectors"] > 0
        failure = search.index.sync.failure
        away = await search.index.server_unreachable()
        stale = away or (failure and f"the index may be out of date ({failure})")
        status = "starting" if search.index.sync.is_first_look else "ok"
        return {
            "status": "stale" if stale else status,
            **state,
            "channels": ["bm25", *(["vector"] if has_vectors else []), "fuzzy"],
            "notes": [stale] if stale else [],
        }
