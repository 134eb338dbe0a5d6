"""The tool `call_tool`, and pinned tools, which are listed by their own names."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any

from mcp.types import CallToolResult, Tool, ToolAnnotations
from mcp.types.version import is_version_at_least
from pydantic import Field, field_validator
from toolindex import ToolIndexError

from pytools_hybrid.errors import PytoolsError
from pytools_hybrid.serve.mcp._asking import Asker, HeldCalls
from pytools_hybrid.serve.mcp._offered import ALWAYS_LOADED, READS, Progress
from pytools_hybrid.serve.mcp._tool import Arguments, ServedTool
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytools_hybrid.index import Follower
    from pytools_hybrid.serve.calls import ToolCaller
    from pytools_hybrid.serve.mcp._categories import Inventory
    from pytools_hybrid.serve.mcp._log_levels import LogLevels
    from pytools_hybrid.serve.mcp._recent import RecentSearches

_log = logging.getLogger("pytools_hybrid")

_ABOUT = "Call a tool that search_tools has found."
_PATIENCE_SECONDS = 1.0
# A called tool may do anything, so there are no hints.
_ANYTHING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


class CallArguments(Arguments):
    """Which tool to call, with which arguments."""

    id: Annotated[str, Field(description="From search_tools")]
    arguments: dict[str, Any] = Field({}, description="As the tool's input says")

    @field_validator("arguments", mode="before")
    @classmethod
    def _one_text_is_json(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        from pydantic_core import from_json

        # Some models write objects as JSON text; other text is refused as usual.
        try:
            return from_json(given)
        except ValueError:
            return given


def call_tool(calls: Calls, inventory: Inventory, *, read_only: bool) -> ServedTool[CallArguments]:
    """Create the tool; with `read_only` it only calls tools that are annotated as read-only."""

    async def about() -> str:
        # Codex finds tools by the words of their descriptions.
        return f"{_ABOUT} {await inventory.sentence(counted=False)}".rstrip()

    async def run(asked: CallArguments, progress: Progress) -> CallToolResult:
        return await calls.answer(asked.id, asked.arguments, progress, was_searched=True)

    return ServedTool(
        name="call_tool",
        title="Call a tool",
        arguments=CallArguments,
        result=None,
        about=about,
        run=run,
        hints=READS.model_copy(update={"open_world_hint": True}) if read_only else _ANYTHING,
    )


class PinnedTool:
    """A tool that is listed under its own name, with its own schema."""

    def __init__(self, name: str, tool_id: str, calls: Calls) -> None:
        self.name = name
        self._id = tool_id
        self._calls = calls

    async def listed(self) -> Tool | None:
        """Return its definition; None while the tool is missing or cannot be called."""
        try:
            # An existing index is read without waiting; the wait for a new one is short.
            if not await self._calls.follower.opened(within=_PATIENCE_SECONDS):
                return None
            await self._calls.follower.looked(within=_PATIENCE_SECONDS)
            tool = await self._calls.caller.find(self._id)
            tool.callee()
        except (PytoolsError, ToolIndexError) as error:
            _log.warning("the pinned tool %s is not listed: %s", self._id, error)
            return None
        return Tool(
            name=self.name,
            description=readable(tool.entry.description),
            input_schema={"type": "object", **(tool.schema or {})},
            annotations=ToolAnnotations.model_validate(tool.annotations),
            _meta=dict(ALWAYS_LOADED),
        )

    async def call(self, given: Mapping[str, Any], progress: Progress) -> CallToolResult:
        """Answer a call."""
        return await self._calls.answer(self._id, given, progress)


def pinned_tools(ids: Sequence[str], taken: Sequence[str], calls: Calls) -> list[PinnedTool]:
    """Create pinned tools from ids; one whose name is taken gets its category as a prefix."""
    bare = [id_.rpartition(":")[2] for id_ in ids]
    names = [
        name if bare.count(name) == 1 and name not in taken else "__".join(id_.split(":")[1:])
        for name, id_ in zip(bare, ids, strict=True)
    ]
    return [PinnedTool(name, id_, calls) for name, id_ in zip(names, ids, strict=True)]


class Calls:
    """Calls tools for MCP clients."""

    def __init__(
        self, caller: ToolCaller, follower: Follower, recent: RecentSearches, levels: LogLevels
    ) -> None:
        self.caller = caller
        self.follower = follower
        self._recent = recent
        self._held = HeldCalls(levels)

    async def answer(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        client: Progress,
        *,
        was_searched: bool = False,
    ) -> CallToolResult:
        """Call a tool, and pass its server's questions on to the client.

        With `was_searched`, the outcome is attributed to the session's last search that listed it.
        """
        await self.follower.looked(client)
        context = client.context
        if context is None:
            return await self.caller.call(tool_id, arguments)

        def search_of(found_id: str) -> str | None:
            return self._recent.search_of(client.session, found_id)

        async def call(asker: Asker) -> CallToolResult:
            async def report(progress: float, total: float | None, message: str | None) -> None:
                await asker.context.report_progress(progress, total, message)

            return await self.caller.call(
                tool_id,
                arguments,
                meta=client.meta or None,
                on_progress=report,
                confirm=asker.confirmed,
                client=asker.caller(),
                search_of=search_of if was_searched else None,
            )

        result = await self._held.answer(context, call)
        structured, version = result.structured_content, context.protocol_version
        if structured is None or isinstance(structured, dict) or _takes_any(version):
            return result
        return result.model_copy(update={"structured_content": {"result": structured}})


def _takes_any(version: str | None) -> bool:
    """Return whether structured content may be any JSON; in older versions, only an object."""
    return version is not None and is_version_at_least(version, "2026-07-28")
