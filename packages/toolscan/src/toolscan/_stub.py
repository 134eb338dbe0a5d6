"""A few lines of Python that an agent can act on."""

from __future__ import annotations

import textwrap
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, cast

from toolscan._schema import input_schema

if TYPE_CHECKING:
    from toolscan._records import Parameter, ToolRecord

__all__ = ["stub"]

_WIDTH = 100
_INDENT = "    "
_QUOTES = '"""'


def stub(record: ToolRecord) -> str:
    """Give the import line, the signature with types, the summary, and what the parameters mean.

    A tool that takes `params: Params` is shown with the fields of `Params`, under the names that
    its constructor takes.
    """
    choices = _choices(input_schema(record))
    blocks = [_import_line(record)]
    if record.params_class:
        fields = [_field(parameter, choices) for parameter in record.parameters]
        blocks.append("\n".join([f"class {record.params_class}:", *(fields or [f"{_INDENT}..."])]))
        blocks.append(_function(record, []))
    else:
        described = [_argument(it, choices) for it in record.parameters]
        blocks.append(_function(record, [text for text in described if text]))
    return "\n\n".join(blocks)


def _import_line(record: ToolRecord) -> str:
    parts = record.path.removesuffix(".py").split("/")
    names = sorted(filter(None, (record.entrypoint, record.params_class)), key=str.lower)
    if all(part.isidentifier() for part in parts):
        return f"from {'.'.join(parts)} import {', '.join(names)}"
    return f"# Load {record.path!r} with importlib: its path is no module name."


def _function(record: ToolRecord, described: list[str]) -> str:
    text = _wrap(_escaped(record.summary), _INDENT + _QUOTES, _INDENT, _WIDTH - len(_QUOTES))
    if described:
        lines = [text, "", f"{_INDENT}Args:", *map(_escaped, described), f"{_INDENT}{_QUOTES}"]
        text = "\n".join(lines)
    elif "\n" in text:
        text += f"\n{_INDENT}{_QUOTES}"
    else:
        text += _QUOTES
    return f"{record.signature}:\n{text}"


def _escaped(text: str) -> str:
    """Write a text so that it can stand in a docstring, whatever it contains."""
    escaped = text.replace("\\", "\\\\").replace(_QUOTES, '\\"\\"\\"')
    return f'{escaped[:-1]}\\"' if escaped.endswith('"') else escaped


def _field(parameter: Parameter, choices: dict[str, str]) -> str:
    name, said = parameter.name, ""
    if parameter.alias:
        if parameter.alias.isidentifier() and not iskeyword(parameter.alias):
            name = parameter.alias
        else:
            said = f"Passed as {parameter.alias!r}."
    default = "" if parameter.required else f" = {parameter.default or '...'}"
    line = f"{_INDENT}{name}: {parameter.annotation}{default}"
    meaning = " ".join(filter(None, (_meaning(parameter, choices), said)))
    if not meaning:
        return line
    if len(line) + len(meaning) + 4 <= _WIDTH:
        return f"{line}  # {meaning}"
    return f"{_wrap(meaning, f'{_INDENT}# ')}\n{line}"


def _argument(parameter: Parameter, choices: dict[str, str]) -> str:
    meaning = _meaning(parameter, choices)
    if not meaning:
        return ""
    head = f"{_INDENT * 2}{parameter.name}: "
    return _wrap(head + meaning, "", _INDENT * 3)


def _meaning(parameter: Parameter, choices: dict[str, str]) -> str:
    description = " ".join(parameter.description.split())
    listed = choices.get(parameter.alias or parameter.name, "")
    return " ".join(filter(None, (description, listed)))


def _wrap(text: str, first: str, following: str | None = None, width: int = _WIDTH) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if following is None else following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _choices(schema: dict[str, Any]) -> dict[str, str]:
    """Give, for each parameter that takes one of a few values, a sentence that lists them."""
    definitions = cast("dict[str, dict[str, Any]]", schema.get("$defs", {}))
    found: dict[str, str] = {}
    for name, given in cast("dict[str, dict[str, Any]]", schema.get("properties", {})).items():
        # Literal types show their values themselves; enums show only their name.
        for choice in [given, *given.get("anyOf", ()), *_items(given)]:
            target = definitions.get(str(choice.get("$ref", "")).removeprefix("#/$defs/"), {})
            if values := target.get("enum"):
                found[name] = f"One of {', '.join(map(repr, values))}."
    return found


def _items(schema: dict[str, Any]) -> list[dict[str, Any]]:
    items = schema.get("items")
    return [cast("dict[str, Any]", items)] if isinstance(items, dict) else []
