"""A tool that a server offers, and the progress of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mcp.types import ToolAnnotations
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, InputRequiredResult, Tool

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""The `_meta` of a tool that Claude Code loads at the start, without a search."""

_PROGRESS_TOKENS = ("progressToken", "progress_token")

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""The hints of a tool that changes nothing."""

WRITES_DOWN = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""The hints of a tool that records what it receives."""


class InputRequired(Exception):  # noqa: N818 - no error: the protocol's answer to a call
    """The client has to answer questions, and then repeat the call."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


def session_of(context: Context[None, Any]) -> str | None:
    """Return the session id of a call; None if there are no sessions (HTTP with newer protocols).

    Over stdio, a process has one client.
    """
    headers = context.headers
    if headers is None:
        return "stdio"
    # Only older protocols have sessions; the SDK has checked their ids.
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return None if is_modern else headers.get("mcp-session-id")


class Progress:
    """Reports the progress of a call, if the client asked for it."""

    def __init__(self, context: Context[None, Any] | None) -> None:
        self.context = context

    async def __call__(self, done: float, doing: str | None, total: float | None = None) -> None:
        """Report an increasing number, and the current step."""
        if self.context is not None:
            await self.context.report_progress(done, total, message=doing)

    @property
    def session(self) -> str | None:
        """The id of the client's session; None without sessions."""
        return None if self.context is None else session_of(self.context)

    @property
    def meta(self) -> dict[str, Any]:
        """The client's `_meta`, without the keys that are only for this server."""
        from pytools_hybrid.serve.calls import PROTOCOL

        sent = (self.context and self.context.request_context.meta) or {}
        return {
            key: value
            for key, value in sent.items()
            if key not in _PROGRESS_TOKENS and not key.startswith(PROTOCOL)
        }


class Offered(Protocol):
    """A tool that the server offers."""

    @property
    def name(self) -> str:
        """The name for agents."""
        ...

    async def listed(self) -> Tool | None:
        """Return its current definition; None if it is not listed now."""
        ...

    async def call(self, given: Mapping[str, Any], progress: Progress) -> CallToolResult:
        """Answer a call."""
        ...
