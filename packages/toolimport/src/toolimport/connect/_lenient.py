"""Lists of tools that are not quite as they should be, put right before the library reads them.

It refuses a whole list for one tool that is wrong, and the result of a call whose tool is in it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from toolimport.lenient_json import read_leniently, without_half_characters

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage
    from pydantic import JsonValue

__all__ = ["Repairs", "lenient"]

_OBJECT = {"type": "object"}
_MOST_VALUES = 5_000


@dataclass
class Repairs:
    """What was wrong with what a server has sent.

    Attributes:
        left_out: Why a tool was left out, by its place in the list.
        notes: What is simplified in a tool, by its name.
        garbled: Why the last thing that it wrote was no message, "" where there was none such.
    """

    left_out: dict[str, str] = field(default_factory=dict[str, str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    garbled: str = ""
    _seen: int = 0
    _is_old: bool = False

    def read(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Put right what is in a message."""
        if isinstance(item, Exception):
            # Half of a surrogate pair, or one schema that is too deep, would lose the whole list.
            recovered = _recovered(item)
            if recovered is None:
                self.garbled = _reason(item)
                return item
            item = recovered
        result: JsonValue = getattr(item.message, "result", None)
        if isinstance(result, dict):
            # Only the older protocols begin so; they allow no other results than objects.
            self._is_old = self._is_old or "protocolVersion" in result
            if isinstance(tools := result.get("tools"), list):
                made = map(self._tool, tools)
                result["tools"] = [it for it in made if it is not None]
        return item

    def _tool(self, tool: JsonValue) -> dict[str, Any] | None:
        self._seen += 1
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            self.left_out[f"number {self._seen}"] = "it has no name"
            return None
        if "\ufffd" in name:
            self.left_out[f"number {self._seen}"] = "its name has half of a surrogate pair"
            return None
        notes: list[str] = []
        made = {key: tool[key] for key in ("title", "description") if _is_text(tool.get(key))}
        annotations = tool.get("annotations")
        if isinstance(annotations, dict) and _is_text(title := annotations.get("title")):
            made["annotations"] = {"title": title}
        made |= {"name": name, "inputSchema": self._input(tool.get("inputSchema"), notes)}
        output = self._output(tool.get("outputSchema"), notes)
        if output is not None:
            made["outputSchema"] = output
        if notes:
            self.notes[name] = "; ".join(notes)
        return made

    def _input(self, schema: JsonValue, notes: list[str]) -> dict[str, Any]:
        if not isinstance(schema, dict) or not _is_of_object(schema):
            notes.append("Params allows anything: its schema is none of an object")
            return dict(_OBJECT)
        return _of_object(schema, notes)

    def _output(self, schema: JsonValue, notes: list[str]) -> dict[str, Any] | None:
        if schema is None:
            return None
        if not isinstance(schema, dict) or (self._is_old and not _is_of_object(schema)):
            notes.append("its results are texts: their schema is none of an object")
            return None
        try:
            made = _resolved(schema, schema)
            made = _of_object(made, notes) if self._is_old else made
            _check_size(made)
            _check(made)
        except (ValueError, RecursionError) as error:
            notes.append(f"Result allows anything: {error}")
            return dict(_OBJECT)
        return made


def _recovered(error: Exception) -> SessionMessage | None:
    """Read leniently a message that the library has refused; None where it is not a message."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    wrong = error.errors(include_url=False)[0]
    if wrong["type"] != "json_invalid" or not isinstance(wrong["input"], str):
        return None
    try:
        read = without_half_characters(read_leniently(wrong["input"]))
        return SessionMessage(jsonrpc_message_adapter.validate_python(read, by_name=False))
    except ValueError:
        return None


def _of_object(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    made = schema | _OBJECT
    if not _is_text(made.get("$schema")):
        made.pop("$schema", None)
    properties: JsonValue = made.get("properties") or {}
    required: JsonValue = made.get("required") or []
    if isinstance(properties, dict):
        wrong = [name for name, it in properties.items() if not isinstance(it, dict | bool)]
        notes += [f"{name} may be anything: its schema is none" for name in wrong]
        made["properties"] = properties | dict.fromkeys(wrong, True)
    else:
        notes.append("its properties may be anything: they are no object")
        del made["properties"]
    if isinstance(required, list):
        made["required"] = [name for name in required if isinstance(name, str)]
    else:
        notes.append("nothing is required: 'required' is no list")
    if not isinstance(required, list) or not made["required"]:
        made.pop("required", None)
    return made


def _resolved(value: JsonValue, schema: dict[str, JsonValue]) -> Any:  # noqa: ANN401
    """Leave out the references that lead nowhere in a schema: any result would be refused."""
    if isinstance(value, list):
        return [_resolved(item, schema) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _resolved(item, schema)
        for key, item in value.items()
        if key != "$ref" or not isinstance(item, str) or _leads_somewhere(item, schema)
    }


def _leads_somewhere(reference: str, schema: JsonValue) -> bool:
    if not reference.startswith("#/"):
        return reference.startswith("#")
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
            schema = schema[int(key)]
        elif isinstance(schema, dict) and key in schema:
            schema = schema[key]
        else:
            return False
    return True


def _check_size(schema: JsonValue) -> None:
    """Refuse a schema that would take long to check: choices are compared with one another."""
    left, waiting = _MOST_VALUES, [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        left -= 1
        if left < 0:
            raise ValueError("its schema is too large")


def _check(schema: dict[str, Any]) -> None:
    from jsonschema import SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"its schema is none: {error.message[:200]}") from None


def _is_of_object(schema: dict[str, JsonValue]) -> bool:
    kind = schema.get("type") or "object"
    return isinstance(kind, str | list) and "object" in kind


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _reason(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        # Without the input, which may be large.
        return error.errors(include_url=False, include_input=False)[0]["msg"]
    return type(error).__name__


@asynccontextmanager
async def lenient(
    transport: AbstractAsyncContextManager[TransportStreams], repairs: Repairs
) -> AsyncGenerator[TransportStreams]:
    """Put a server's messages right on their way to the library."""
    async with transport as (read, write):
        yield _Lenient(read, repairs), write


class _Lenient:
    def __init__(self, stream: ReadStream[SessionMessage | Exception], repairs: Repairs) -> None:
        self._stream = stream
        self._repairs = repairs

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._repairs.read(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Lenient:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._repairs.read(await self._stream.__anext__())

    async def __aenter__(self) -> _Lenient:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)
