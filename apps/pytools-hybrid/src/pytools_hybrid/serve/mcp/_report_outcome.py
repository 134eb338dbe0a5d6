"""The tool `report_outcome`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from pytools_hybrid.index import Recording
from pytools_hybrid.serve.mcp._offered import WRITES_DOWN, Progress
from pytools_hybrid.serve.mcp._tool import Arguments, ServedTool, answer

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.mcp._recent import RecentSearches

_TEXTS = {
    Recording.WRITTEN: "recorded",
    Recording.PENDING: (
        "accepted; it is recorded once the index is writable. Do not report it again."
    ),
    Recording.OFF: "not recorded: the usage record is off",
    Recording.READ_ONLY: "not recorded: the index is read-only",
}


class OutcomeArguments(Arguments):
    """The outcome of a call."""

    tool_id: str
    success: bool
    latency_ms: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    search_id: Annotated[str | None, Field(max_length=200)] = None


class OutcomeAnswer(BaseModel):
    """Whether the outcome was recorded, and if not, why."""

    recorded: bool
    state: Recording


def report_outcome(
    search: ToolSearch, follower: Follower, recent: RecentSearches
) -> ServedTool[OutcomeArguments]:
    """Create the tool for an open `ToolSearch`.

    An outcome without a search id is attributed to the session's last search that listed the tool.
    """

    async def about() -> str:
        return "Report whether a tool that was used worked; later searches take it into account."

    async def run(asked: OutcomeArguments, progress: Progress) -> CallToolResult:
        await follower.looked(progress)
        tool_id = str((await search.find(asked.tool_id)).id)
        recording = await search.record_outcome(
            tool_id,
            success=asked.success,
            latency_ms=asked.latency_ms,
            search_id=asked.search_id or recent.search_of(progress.session, tool_id),
        )
        is_written = recording is Recording.WRITTEN
        return answer({"recorded": is_written, "state": recording.value}, _TEXTS[recording])

    return ServedTool(
        name="report_outcome",
        title="Report an outcome",
        arguments=OutcomeArguments,
        result=OutcomeAnswer,
        about=about,
        run=run,
        hints=WRITES_DOWN,
    )
