"""The tool `call_tool`, and pinned tools, which are listed by their own names."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from mcp.types import CallToolResult, Tool, ToolAnnotations
from mcp.types.version import is_version_at_least
from toolindex import ToolIndexError

from pytools_hybrid.errors import PytoolsError
from pytools_hybrid.serve.mcp._asking import ClientQuestions, Progress, SuspendedCalls
from pytools_hybrid.serve.mcp._tools import ALWAYS_LOADED, READS, OperationTool
from pytools_hybrid.serve.operations import CALL, CallArguments
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytools_hybrid.serve.calls import ToolCaller
    from pytools_hybrid.serve.mcp._asking import LogLevels
    from pytools_hybrid.serve.mcp._tools import CategorySummary, RecentSearches
    from pytools_hybrid.serve.operations import Service

_log = logging.getLogger("pytools_hybrid")

_ABOUT = "Call a tool that search_tools has found."
_PATIENCE_SECONDS = 1.0
# A called tool may do anything, so there are no hints.
_ANYTHING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


def call_tool(
    calls: Calls, summary: CategorySummary, *, read_only: bool
) -> OperationTool[CallArguments]:
    """Create the tool; with `read_only` it only calls tools that are annotated as read-only."""

    async def about() -> str:
        # Codex finds tools by the words of their descriptions.
        return f"{_ABOUT} {await summary.sentence(counted=False)}".rstrip()

    async def run(arguments: CallArguments, progress: Progress) -> CallToolResult:
        return await calls.answer(arguments, progress, was_searched=True)

    return OperationTool(
        operation=CALL,
        arguments=CALL.arguments,
        result=CALL.result,
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
            follower = self._calls.service.follower
            if not await follower.wait_until_open(within=_PATIENCE_SECONDS):
                return None
            await follower.wait_until_scanned(within=_PATIENCE_SECONDS)
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
        arguments = CallArguments.model_construct(id=self._id, arguments=dict(given))
        return await self._calls.answer(arguments, progress)


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
        self, service: Service, caller: ToolCaller, recent: RecentSearches, levels: LogLevels
    ) -> None:
        self.service = service
        self.caller = caller
        self._recent = recent
        self._held = SuspendedCalls(levels)

    async def answer(
        self, arguments: CallArguments, client: Progress, *, was_searched: bool = False
    ) -> CallToolResult:
        """Call a tool, and pass its server's questions on to the client.

        With `was_searched`, the outcome is attributed to the session's last search that listed it.
        """
        context = client.context
        if context is None:
            return await CALL.run(self.service, arguments)
        await self.service.follower.wait_until_scanned(client)

        def search_of(found_id: str) -> str | None:
            return self._recent.search_of(client.session, found_id)

        async def call(asker: ClientQuestions) -> CallToolResult:
            async def report(progress: float, total: float | None, message: str | None) -> None:
                await asker.context.report_progress(progress, total, message)

            return await CALL.run(
                self.service,
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
