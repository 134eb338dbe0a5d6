"""What is changed in a server's answer before a client gets it: as little as can be."""

from __future__ import annotations

from mcp.types import CallToolResult, TextContent

PROTOCOL = "io.modelcontextprotocol/"
"""The prefix of `_meta` keys that only concern a client and its own server."""

_LINKED = (
    "The linked resources are on the tool's own server; this server passes calls on, and cannot "
    "read them."
)


def received(result: CallToolResult) -> CallToolResult:
    """Return an answer without the server's metadata, which must not pass as ours."""
    meta = {key: it for key, it in (result.meta or {}).items() if not key.startswith(PROTOCOL)}
    content = list(result.content)
    if any(block.type == "resource_link" for block in content):
        content.append(TextContent(type="text", text=_LINKED))
    return result.model_copy(update={"content": content, "meta": meta or None})
