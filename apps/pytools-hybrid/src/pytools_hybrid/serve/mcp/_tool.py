"""A tool as this server offers it: its definition, its call, its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from pytools_hybrid.serve.mcp._arguments import Arguments, read_arguments
from pytools_hybrid.serve.mcp._schemas import arguments_schema, result_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import BaseModel

A = TypeVar("A", bound=Arguments)

Progress = Callable[[float, str], Awaitable[None]]
"""Tells the client how far a call has come: a number that grows, and what is being done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTool(Generic[A]):
    """A tool of this server.

    Attributes:
        name: What agents call.
        title: What people read.
        arguments: The model of its arguments.
        result: The model of its structured content.
        about: Gives its description, which may change with the index.
        run: Answers a call.
        reports: Whether it writes down what it is told; the others change nothing.
    """

    name: str
    title: str
    arguments: type[A]
    result: type[BaseModel]
    about: Callable[[], Awaitable[str]]
    run: Callable[[A, Progress], Awaitable[CallToolResult]]
    reports: bool = False

    async def listed(self) -> Tool:
        """Return its definition as it is now."""
        return Tool(
            name=self.name,
            title=self.title,
            description=await self.about(),
            input_schema=arguments_schema(self.arguments),
            output_schema=result_schema(self.result),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=not self.reports,
                destructive_hint=False,
                idempotent_hint=not self.reports,
                open_world_hint=False,
            ),
        )

    async def call(self, given: Mapping[str, Any], progress: Progress) -> CallToolResult:
        """Answer a call.

        Raises:
            ToolError: The arguments do not fit.
        """
        return await self.run(read_arguments(self.arguments, given), progress)


def answer(
    structured: dict[str, Any], texts: Iterable[str], *, meta: Mapping[str, Any] | None = None
) -> CallToolResult:
    """Make the answer of a call.

    Args:
        structured: What programs read.
        texts: What models read, a block for each.
        meta: What else there is to say; the keys get the prefix of this server.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=text) for text in texts],
        structured_content=structured,
        _meta={f"pytools/{key}": value for key, value in meta.items()} if meta else None,
    )
