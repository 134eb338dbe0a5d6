"""A tool that a program can call in this process."""

from __future__ import annotations

import asyncio
import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pytools_hybrid.errors import ToolArgumentsError
from pytools_hybrid.telemetry import CALLS, observe, request_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What providers accept as the name of a function.
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
NAME_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFunction:
    """A tool that can be called, with what a language model needs to know for that.

    Attributes:
        id: `source:category:name`, or the name of a program's own function.
        name: `category__name`, as providers of language models accept it.
        description: The whole docstring.
        input_schema: The JSON Schema of the arguments.
    """

    id: str
    name: str
    description: str
    input_schema: dict[str, Any]
    _bind: Callable[[Mapping[str, Any]], inspect.BoundArguments] = field(repr=False)
    _function: Callable[..., Any] = field(repr=False)

    async def call(self, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it gives
        """Call the tool; if it is not async, it runs in a worker thread.

        Args:
            arguments: JSON values that match the schema.

        Returns:
            The result of the tool.

        Raises:
            ToolArgumentsError: The arguments do not match the schema; the tool was not called.
            RuntimeError: The tool tried to exit the program, or raised `StopIteration`.
            Exception: Any other error of the tool.
        """
        category = self.id.split(":")[1] if self.id.count(":") == 2 else ""
        with observe(CALLS, request_source.get(), category) as seen:
            seen.note(self.name, {"gen_ai.tool.name": self.name, "pytools.tool": self.id})
            try:
                bound = self._bind(arguments)
            except ValidationError as error:
                seen.outcome = "refused"
                raise ToolArgumentsError(self.id, error.errors(include_url=False)) from error
            try:
                result = await self._called(bound)
            except Exception:
                seen.outcome = "error"
                raise
            seen.outcome = "ok"
        return result

    async def _called(self, bound: inspect.BoundArguments) -> Any:  # noqa: ANN401 - whatever it gives
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(*bound.args, **bound.kwargs)
            result = await asyncio.to_thread(self._run, bound)
            # A decorator may hide that a function is async.
            return await result if inspect.isawaitable(result) else result
        except SystemExit as error:
            raise RuntimeError(f"{self.id} wanted to end the program: {error!r}") from error

    def _run(self, bound: inspect.BoundArguments) -> Any:  # noqa: ANN401 - whatever it gives
        try:
            return self._function(*bound.args, **bound.kwargs)
        except StopIteration as error:
            # A future cannot pass it on, so the call would never end.
            raise RuntimeError(f"{self.id} raised StopIteration") from error
