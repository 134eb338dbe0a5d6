"""A few lines of Python that show an agent how to call a tool."""

from __future__ import annotations

import re
import textwrap
from keyword import iskeyword
from typing import TYPE_CHECKING, cast

from toolscan._schema import read_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolscan._keywords import Schema
    from toolscan._records import Parameter, ToolRecord

_WIDTH = 100
_INDENT = "    "
_QUOTES = '"""'
# Quotes that would end a docstring: three inside it, or one just before its closing quotes.
_ENDING = re.compile(r'"{3,}|"\Z')
_MAX_CLASSES = 10
DEFINED_IN = "# Defined in "
"""The first words of definitions from another file than the record's."""
# Control characters, and those that change the direction of text.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}


def write_stub(record: ToolRecord) -> str:
    schema = read_input(record)
    definitions = cast("dict[str, Schema]", schema.get("$defs", {}))
    # The schema of a class that refers to itself is among the definitions.
    owner = definitions.get(_reference(schema), schema)
    choices = _choices(owner, definitions)
    classes = _classes(owner, definitions)
    classes.pop(record.params_class, None)
    blocks = [_import_line(record, classes), *classes.values()]
    if record.params_class:
        fields = [_field(parameter, choices) for parameter in record.parameters]
        blocks.append("\n".join([f"class {record.params_class}:", *(fields or [f"{_INDENT}..."])]))
        blocks.append(_function(record, []))
        if _has_async(record):
            blocks.append(f"{async_signature(record.entrypoint, record.signature)}: ...")
    else:
        described = [_argument(it, choices) for it in record.parameters]
        blocks.append(_function(record, [text for text in described if text]))
    return "\n\n".join(blocks)


def async_signature(name: str, signature: str) -> str:
    return signature.replace(f"def {name}(", f"async def {name}_async(", 1)


def _import_line(record: ToolRecord, classes: Iterable[str]) -> str:
    first = record.definitions.partition("\n")[0]
    path = first.removeprefix(DEFINED_IN) if first.startswith(DEFINED_IN) else record.path
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    # Classes inside classes cannot be imported by name.
    at_top = [it for it in classes if re.search(rf"^class {it}\b", record.definitions, re.M)]
    others = [f"{record.entrypoint}_async"] if _has_async(record) else []
    names = sorted(
        {record.entrypoint, *others, *filter(None, [record.params_class]), *at_top}, key=str.lower
    )
    if all(part.isidentifier() and not iskeyword(part) for part in parts):
        return f"from {'.'.join(parts)} import {', '.join(names)}"
    return f"# Load {record.path!r} with importlib: its path is not a module name."


def _has_async(record: ToolRecord) -> bool:
    other = f"{async_signature(record.entrypoint, record.signature)}: ..."
    return bool(record.params_class) and not record.is_async and other in record.definitions


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
    escaped = _visible(text.replace("\\", "\\\\"))
    return _ENDING.sub(lambda found: '\\"' * len(found[0]), escaped)


def _visible(text: str) -> str:
    """Escape characters that source text cannot contain, or that reorder it on screen."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _field(parameter: Parameter, choices: dict[str, str]) -> str:
    name, said = parameter.name, ""
    if parameter.alias:
        if parameter.alias.isidentifier() and not iskeyword(parameter.alias):
            name = parameter.alias
        else:
            said = f"Passed as {parameter.alias!r}."
    default = "" if parameter.required else f" = {parameter.default or '...'}"
    meaning = " ".join(filter(None, (_meaning(parameter, choices), said)))
    return _commented(f"{_INDENT}{name}: {parameter.annotation}{default}", _visible(meaning))


def _commented(line: str, meaning: str) -> str:
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


def _choices(owner: Schema, definitions: dict[str, Schema]) -> dict[str, str]:
    """Return a sentence that lists the allowed values, for each parameter with only a few."""
    # Literal types already show their values; enums only show their name.
    found = {
        name: _enumerated(given, definitions)
        for name, given in cast("dict[str, Schema]", owner.get("properties", {})).items()
    }
    return {
        name: f"One of {', '.join(map(repr, values))}." for name, values in found.items() if values
    }


def _enumerated(schema: Schema, definitions: dict[str, Schema]) -> list[object]:
    """Return the values of an enum, if a parameter or each of its items must be one of them."""
    options = [it for it in schema.get("anyOf", [schema]) if it.get("type") != "null"]
    if len(options) != 1:
        return []
    if isinstance(items := options[0].get("items"), dict):
        return _enumerated(cast("Schema", items), definitions)
    values = definitions.get(_reference(options[0]), {}).get("enum", [])
    return cast("list[object]", values)


def _reference(schema: Schema) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _classes(owner: Schema, definitions: dict[str, Schema]) -> dict[str, str]:
    shown: dict[str, str] = {}
    inside = {key: value for key, value in owner.items() if key != "$defs"}
    for name in _references(inside):
        found = definitions.get(name, {})
        if "properties" in found and name.isidentifier() and len(shown) < _MAX_CLASSES:
            shown[name] = _class(name, found, definitions)
    return shown


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        schema = cast("Schema", node)
        if "$ref" in schema:
            yield _reference(schema)
    values = cast("Iterable[object]", node.values() if isinstance(node, dict) else node)
    if isinstance(node, dict | list):
        for value in values:
            yield from _references(value)


def _class(name: str, schema: Schema, definitions: dict[str, Schema]) -> str:
    lines: list[str] = []
    is_empty = True
    for key, field in cast("dict[str, Schema]", schema["properties"]).items():
        default = f" = {field['default']!r}" if "default" in field else " = ..."
        said = f"{_type(field, definitions)}{'' if key in schema.get('required', ()) else default}"
        # A name that is invalid in Python can still be a key of a dictionary.
        named = key.isidentifier() and not iskeyword(key)
        line = f"{_INDENT}{key}: {said}" if named else f"{_INDENT}# {key!r}: {said}"
        meaning = " ".join(str(field.get("description", "")).split())
        lines.append(_commented(line, _visible(meaning)))
        is_empty = is_empty and not named
    if is_empty:
        lines.append(f"{_INDENT}...")
    return "\n".join([f"class {name}:", *lines])


def _type(schema: Schema, definitions: dict[str, Schema]) -> str:
    """Return the Python type of a schema, shortened to fit on a line."""
    target = definitions.get(_reference(schema), {})
    match target if "enum" in target else schema:
        case {"$ref": _}:
            name = _reference(schema)
            return name if name.isidentifier() else "dict"
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            types = (_type(it, definitions) for it in options)
            return " | ".join(dict.fromkeys(types))
        case {"const": value}:
            return f"Literal[{value!r}]"
        case {"enum": [*values]}:
            return f"Literal[{', '.join(map(repr, values))}]"
        case {"type": "array", "items": {**items}}:
            return f"list[{_type(cast('Schema', items), definitions)}]"
        case {"type": "object", "additionalProperties": {**items}}:
            return f"dict[str, {_type(cast('Schema', items), definitions)}]"
        case {"type": str(kind)}:
            return _TYPES.get(kind, "Any")
        case _:
            return "Any"
