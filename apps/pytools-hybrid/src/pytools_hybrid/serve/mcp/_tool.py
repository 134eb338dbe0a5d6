"""A tool of this server: its definition, calls and answers."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from pytools_hybrid.search import MAX_NAME, MAX_NAMES
from pytools_hybrid.serve.mcp._offered import ALWAYS_LOADED, READS, Progress
from pytools_hybrid.serve.mcp._schemas import arguments_schema, result_schema
from pytools_hybrid.serve.results import META_PREFIX
from pytools_hybrid.settings import ALIASES, AliasError, renamed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic import JsonValue
    from pydantic_core import ErrorDetails


A = TypeVar("A", bound="Arguments")

# A query followed by a long pasted text is still answered; a megabyte would take seconds.
_MOST_CHARACTERS = 100_000
_SHOWN_CHARACTERS = 60
# Only the first problems of a call are reported.
_SHOWN_PROBLEMS = 2
_KINDS: dict[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list of texts",
    "object": "an object",
}


class Arguments(BaseModel):
    """The arguments of a tool; unknown names are refused.

    Agents write null for arguments that they leave out, and a single string instead of a list; both
    are accepted. Strings have a maximum length, which a field can lower.
    """

    model_config = ConfigDict(extra="forbid", str_max_length=_MOST_CHARACTERS)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: JsonValue) -> JsonValue:
        if not isinstance(given, dict):
            return given
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        told = {name: it for name, it in given.items() if it is not None or name in required}
        # If both names are present, the alias is kept, and then refused.
        with suppress(AliasError):
            told = renamed(told, cls.model_fields)
        return told

    # These limits are not in the schema, because every agent reads it. The error types are
    # pydantic's.
    @field_validator("categories", "tags", mode="before", check_fields=False)
    @classmethod
    def _one_is_a_list(cls, given: JsonValue) -> JsonValue:
        if isinstance(given, str):
            try:
                several: JsonValue = json.loads(given)
            except (ValueError, RecursionError):
                several = None
            given = several if isinstance(several, list) else [given]
        if isinstance(given, list):
            if len(given) > MAX_NAMES:
                raise PydanticCustomError("too_long", "too many", {"max_length": MAX_NAMES})
            if any(isinstance(it, str) and len(it) > MAX_NAME for it in given):
                raise PydanticCustomError("string_too_long", "too long", {"max_length": MAX_NAME})
        return given


def read_arguments(model: type[A], given: Mapping[str, Any]) -> A:
    """Return the validated arguments of a call; a `ToolError` says what would be valid."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        schema = arguments_schema(model)
        # An error in a name, such as a lone surrogate, has no field.
        wrong = {str((*it["loc"], it["input"])[0]): it for it in error.errors(include_url=False)}
        shown = islice(wrong.items(), _SHOWN_PROBLEMS)
        # Not chained, because the SDK would log the values in a chained error.
        raise ToolError(
            " ".join(_problem(name, details, given, schema) for name, details in shown)
        ) from None


def quoted(value: object) -> str:
    """Quote a caller's text on one printable line, and cut it if it is long."""
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _problem(
    name: str, wrong: ErrorDetails, given: Mapping[str, Any], schema: Mapping[str, Any]
) -> str:
    fields, limits = schema["properties"], wrong.get("ctx", {})
    if (own := ALIASES.get(name, ("",))[0]) in fields:
        return f"{name} is another name for {own}, and they differ; give one of them."
    if name not in fields:
        return f"There is no argument {quoted(name)}; there are {', '.join(fields) or 'none'}."
    match wrong["type"]:
        case "missing":
            return f"The argument {name} is missing; give {_allowed(fields[name])}."
        case "string_too_long":
            return f"{name} has a text of more than {limits['max_length']} characters; cut it."
        case "too_long":
            return f"{name} is a list of more than {limits['max_length']}; give fewer."
        case _:
            return f"{name} is {quoted(given.get(name))}; give {_allowed(fields[name])}."


def _allowed(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    kind = _KINDS[field["type"]]
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f"{kind} from {least:g} to {most:g}"
    return f"{kind}, {least:g} or more" if least is not None else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTool(Generic[A]):
    """A tool of this server.

    Attributes:
        name: The name for agents.
        arguments: The model of its arguments.
        result: The model of its structured content; None for any content.
        about: Returns its description, which may change with the index.
        run: Answers a call.
        hints: Its annotations, such as whether it changes anything.
    """

    name: str
    title: str
    arguments: type[A]
    result: type[BaseModel] | None
    about: Callable[[], Awaitable[str]]
    run: Callable[[A, Progress], Awaitable[CallToolResult]]
    hints: ToolAnnotations = field(default_factory=lambda: READS)

    async def listed(self) -> Tool:
        """Return its current definition."""
        return Tool(
            name=self.name,
            title=self.title,
            description=await self.about(),
            input_schema=arguments_schema(self.arguments),
            output_schema=None if self.result is None else result_schema(self.result),
            annotations=self.hints.model_copy(update={"title": self.title}),
            _meta=dict(ALWAYS_LOADED),
        )

    async def call(self, given: Mapping[str, Any], progress: Progress) -> CallToolResult:
        """Answer a call."""
        return await self.run(read_arguments(self.arguments, given), progress)


def answer(
    structured: dict[str, Any], text: str, *, meta: Mapping[str, Any] | None = None
) -> CallToolResult:
    """Create the answer to a call: content for programs, and a text for models.

    The text is one block, because some clients only pass on the first. The keys of `meta` get this
    server's prefix.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=structured,
        _meta={f"{META_PREFIX}{key}": value for key, value in meta.items()} if meta else None,
    )
