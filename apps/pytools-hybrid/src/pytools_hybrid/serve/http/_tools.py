"""The endpoints that describe and call single tools, and those of the usage record."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pytools_hybrid.index import Recording
from pytools_hybrid.serve.http._json import index_state, json_response
from pytools_hybrid.serve.http._parameters import (
    CallBody,
    DescribeQuery,
    NoQuery,
    OutcomeReport,
    StatisticsQuery,
    read_body,
    read_query,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.calls import ToolCaller

_STATUS = {Recording.WRITTEN: 201, Recording.PENDING: 202}


class Tools:
    """Describes tools, and records the outcomes of using them."""

    def __init__(self, search: ToolSearch, follower: Follower) -> None:
        self._search = search
        self._follower = follower

    async def describe(self, request: Request) -> Response:
        """Answer `GET /api/v1/tools/{id}`."""
        asked = read_query(DescribeQuery, request)
        await self._follower.ready()
        described = await self._search.describe(request.path_params["id"], asked.detail)
        return json_response(described.model_dump(exclude_none=True))

    async def report(self, request: Request) -> Response:
        """Answer `POST /api/v1/outcomes`."""
        read_query(NoQuery, request)
        report = await read_body(OutcomeReport, request)
        await self._follower.ready()
        entry = await self._search.find(report.tool_id)
        recording = await self._search.record_outcome(
            str(entry.id),
            success=report.success,
            latency_ms=report.latency_ms,
            search_id=report.search_id,
        )
        content = {
            "tool_id": str(entry.id),
            "recorded": recording is Recording.WRITTEN,
            "state": recording.value,
        }
        return json_response(content, status=_STATUS.get(recording, 200))

    async def statistics(self, request: Request) -> Response:
        """Answer `GET /api/v1/stats`."""
        asked = read_query(StatisticsQuery, request)
        search = self._search
        record = await search.index.statistics(since=asked.since)
        content = asdict(record) | {
            "share_without_results": record.share_without_results,
            "acceptance_rate": record.acceptance_rate,
            "tools": [
                asdict(tool) | {"success_rate": tool.success_rate}
                for tool in record.tools
                if search.policy.passes_id(tool.tool_id)
            ],
            **await index_state(search),
        }
        return json_response(content)


class Calls:
    """Calls tools for clients of the JSON API."""

    def __init__(self, caller: ToolCaller, follower: Follower) -> None:
        self._caller = caller
        self._follower = follower

    async def call(self, request: Request) -> Response:
        """Answer `POST /api/v1/tools/{id}/call`."""
        read_query(NoQuery, request)
        asked = await read_body(CallBody, request)
        await self._follower.ready()
        result = await self._caller.call(request.path_params["id"], asked.arguments)
        return json_response(result.model_dump(by_alias=True, exclude_none=True, mode="json"))
