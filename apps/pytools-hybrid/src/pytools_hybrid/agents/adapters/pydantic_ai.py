"""For pydantic-ai: results as a toolset, and a strategy for its tool search."""

from __future__ import annotations

import logging
from itertools import chain, count, zip_longest
from typing import TYPE_CHECKING, Any

from pytools_hybrid.agents.corpus import ToolCorpus, ToolDefinition
from pytools_hybrid.agents.functions import NAME_LENGTH, ToolFunction, load_tool
from pytools_hybrid.errors import ToolArgumentsError, ToolLoadError
from pytools_hybrid.settings import REMEDIES

try:
    from pydantic_ai import FunctionToolset, ModelRetry, Tool
except ModuleNotFoundError as _error:
    raise REMEDIES.not_here(_error) from _error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai import ToolDefinition as HeldTool

    from pytools_hybrid.search import FoundTool

__all__ = ["search_strategy", "toolset"]

_log = logging.getLogger("pytools_hybrid")


def toolset(hits: Iterable[FoundTool]) -> FunctionToolset[Any]:
    """Return the results of a search as a toolset, for `Agent.run(…, toolsets=[…])`.

    This imports the tools' modules and lets the model run them. A tool that cannot be imported is
    left out, and the log says why. Invalid arguments are reported to the model.
    """
    tools: dict[str, Tool[Any]] = {}
    for hit in {hit.id: hit for hit in hits}.values():
        try:
            function = load_tool(hit)
        except ToolLoadError as error:
            _log.warning("left out of the toolset: %s", error)
        else:
            name = _unused(function.name, tools)
            tools[name] = _tool(function, name)
    return FunctionToolset(list(tools.values()))


def search_strategy(
    corpus: ToolCorpus | None = None, *, limit: int | None = None, threshold: float | None = None
) -> Callable[[RunContext[Any], Sequence[str], Sequence[HeldTool]], Awaitable[list[str]]]:
    """Return a `strategy` for `pydantic_ai.capabilities.ToolSearch`, which searches deferred tools.

    Args:
        corpus: Ranks the tools; by default a new one.
        limit: The maximum number of results; `max_results` of `ToolSearch` also applies.
        threshold: As for `ToolCorpus.rank`.
    """
    corpus = corpus or ToolCorpus()

    async def search(
        _context: RunContext[Any], queries: Sequence[str], tools: Sequence[HeldTool]
    ) -> list[str]:
        held = [
            ToolDefinition(
                name=tool.name,
                description=tool.description or "",
                input_schema=tool.parameters_json_schema,
            )
            for tool in tools
        ]
        ranked = [
            await corpus.rank(query, held, limit=limit, threshold=threshold) for query in queries
        ]
        # The best tool of each query, then the second best of each.
        places = chain.from_iterable(zip_longest(*ranked))
        return list(dict.fromkeys(name for name in places if name is not None))[:limit]

    return search


def _unused(name: str, taken: Collection[str]) -> str:
    """Distinguish tools whose names are equal, in two sources or after being cut."""
    numbered = (f"{name[: NAME_LENGTH - 4]}_{number}" for number in count(2))
    return next(it for it in chain((name,), numbered) if it not in taken)


def _tool(function: ToolFunction, name: str) -> Tool[Any]:
    async def call(**arguments: Any) -> Any:  # noqa: ANN401 - whatever the tool takes and gives
        try:
            return await function.call(arguments)
        except ToolArgumentsError as error:
            raise ModelRetry(str(error)) from error

    return Tool.from_schema(
        call,
        name=name,
        description=function.description,
        json_schema=function.input_schema,
    )
