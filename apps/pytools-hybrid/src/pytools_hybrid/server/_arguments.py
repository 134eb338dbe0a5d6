"""What agents pass to a tool, and how they are told what was wrong with it."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from pytools_hybrid.server._schemas import arguments_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Arguments", "nearest_first", "quoted", "read_arguments"]

A = TypeVar("A", bound="Arguments")

_SHOWN_CHARACTERS = 60
# More at once is not read.
_SHOWN_PROBLEMS = 2
_KINDS: dict[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list of texts",
}


class Arguments(BaseModel):
    """The arguments of a tool; another name than those of the fields is refused.

    Agents write null for what they leave out, and one text where a list is wanted; both are
    taken for what they mean.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: it for name, it in given.items() if it is not None or name in required}

    @field_validator("categories", "tags", mode="before", check_fields=False)
    @classmethod
    def _one_is_a_list(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        try:
            several = json.loads(given)
        except ValueError:
            return [given]
        return several if isinstance(several, list) else [given]


def read_arguments(model: type[A], given: Mapping[str, Any]) -> A:
    """Check the arguments of a call.

    Raises:
        ToolError: They do not fit; it says what would.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        schema = arguments_schema(model)
        problems = [_problem(str(it["loc"][0]), it["type"], given, schema) for it in error.errors()]
        # Not chained: the SDK would log the fields of a chained error once more.
        raise ToolError(" ".join(list(dict.fromkeys(problems))[:_SHOWN_PROBLEMS])) from None


def nearest_first(name: str, names: Iterable[str]) -> list[str]:
    """Sort names by how much they look like one that was asked for."""
    asked = name.casefold()

    def likeness(candidate: str) -> tuple[float, str]:
        return -SequenceMatcher(None, asked, candidate.casefold()).ratio(), candidate

    return sorted(names, key=likeness)


def quoted(value: object) -> str:
    """Show what a caller wrote: on one line, printable, and cut where it is long."""
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _problem(name: str, kind: str, given: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    fields = schema["properties"]
    if kind == "extra_forbidden":
        return f"There is no argument {quoted(name)}; there are {', '.join(fields)}."
    allowed = _allowed(fields[name])
    if kind == "missing":
        return f"The argument {name} is missing; give {allowed}."
    return f"{name} is {quoted(given.get(name))}; give {allowed}."


def _allowed(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    kind = _KINDS[field["type"]]
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f"{kind} from {least:g} to {most:g}"
    return f"{kind}, {least:g} or more" if least is not None else kind
