"""The minimum level of log messages that each client receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakKeyDictionary

from mcp.server.connection import allowed_log_levels
from mcp.types import EmptyResult, LoggingLevel

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.mcpserver import Context
    from mcp.types import SetLevelRequestParams

_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)


class LogLevels:
    """Stores the level of each client with an older protocol; newer ones send it with a call."""

    def __init__(self) -> None:
        self._set: WeakKeyDictionary[Connection, LoggingLevel] = WeakKeyDictionary()

    async def set(
        self, context: ServerRequestContext[Any, Any], params: SetLevelRequestParams
    ) -> EmptyResult:
        """Answer `logging/setLevel`."""
        self._set[_connection(context.session)] = params.level
        return EmptyResult()

    def lowest(self, context: Context[None, Any]) -> LoggingLevel | None:
        """Return a client's minimum level during a call; None for no messages."""
        request = context.request_context
        allowed = allowed_log_levels(context.protocol_version or "", request.meta)
        first: LoggingLevel | None = next((level for level in _LEVELS if level in allowed), None)
        return None if first is None else self._set.get(_connection(context.session), first)


def is_wanted(level: LoggingLevel, lowest: LoggingLevel | None) -> bool:
    """Return whether a message has the minimum level or a higher one."""
    return lowest is not None and _LEVELS.index(level) >= _LEVELS.index(lowest)


def _connection(session: Any) -> Connection:  # noqa: ANN401 - see below
    # Nothing public distinguishes connections.
    connection: Connection = session._connection
    return connection
