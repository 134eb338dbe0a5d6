"""The endpoint that calls tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.serve.http._json import json_response
from pytools_hybrid.serve.http._parameters import CallBody, NoQuery, read_body, read_query

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pytools_hybrid.calls import ToolCaller
    from pytools_hybrid.index import Follower


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
