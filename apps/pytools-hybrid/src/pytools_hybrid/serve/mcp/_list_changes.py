"""Notifying clients when the list of tools changes because the categories have changed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import ToolsListChanged
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from toolindex import ToolIndexError

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.subscriptions import SubscriptionBus

    from pytools_hybrid.index import Follower
    from pytools_hybrid.serve.mcp._categories import Inventory

# The files of a copied folder arrive one by one.
_QUIET_SECONDS = 0.5
_AT_MOST_QUIET = 10
_PATIENCE_SECONDS = 2.0


class ListChanges:
    """Notifies every client: through its subscription, or an older client through its connection.

    Append `middleware` to a server's middleware.
    """

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._connections: set[Connection] = set()

    async def middleware(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Remember the connections of older clients, and announce notifications to them."""
        result = await call_next(ctx)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return result
        if ctx.method == "initialize" and isinstance(result, dict):
            capabilities = result["capabilities"]
            tools = capabilities["tools"] | {"listChanged": True}
            return result | {"capabilities": capabilities | {"tools": tools}}
        if ctx.method == "notifications/initialized":
            # Only the connection reports that a session ends, and it is not public.
            self._keep(ctx.session._connection)  # pyright: ignore[reportPrivateUsage]
        return result

    async def announce(self) -> None:
        """Notify all clients; a client that does not read only delays this for a short time."""
        await self._bus.publish(ToolsListChanged())
        if self._connections:
            sending = {
                asyncio.create_task(connection.send_tool_list_changed())
                for connection in self._connections
            }
            _, late = await asyncio.wait(sending, timeout=_PATIENCE_SECONDS)
            for task in late:
                task.cancel()

    def _keep(self, connection: Connection) -> None:
        # A client may send `initialized` more than once.
        if connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)


async def announce_list_changes(
    changes: ListChanges, *, inventory: Inventory, follower: Follower
) -> None:
    """Notify clients of changed categories until cancelled.

    Changed numbers of tools are not announced, because a client that lists the tools again loses
    its prompt cache.
    """
    known: frozenset[str] | None = None
    while True:
        await follower.refreshed.wait()
        for _ in range(_AT_MOST_QUIET):
            follower.refreshed.clear()
            await asyncio.sleep(_QUIET_SECONDS)
            if not follower.refreshed.is_set():
                break
        try:
            names = frozenset(await inventory.counts())
        except ToolIndexError:
            continue
        listed = inventory.listed if known is None else known
        if listed is not None and names != listed:
            await changes.announce()
        known = names
