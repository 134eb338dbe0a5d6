"""Generating pydantic models from schemas with datamodel-code-generator, the extra `generate`."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from toolimport._errors import ToolImportError
from toolimport._schemas import (
    MANY,
    NAMED,
    ONE,
    argument_validator,
    as_meant,
    mapped,
    target_of,
    without_patterns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import BaseModel, JsonValue

_HEADER = "# toolimport"
_FUTURE = "from __future__ import annotations\n"
_MODULES = frozenset(
    {
        *("__future__", "typing", "enum", "pydantic", "datetime", "decimal", "uuid", "ipaddress"),
        *("pathlib", "collections.abc", "typing_extensions", "annotated_types"),
    }
)
# Classes, and functions of pydantic that create types: `Field(…)`, `constr(…)`.
_CALLED = re.compile(r"[A-Z]\w*|con[a-z]+")
_PATTERN = "a pattern that pydantic does not know was left out"
_ANYTHING = """\
from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class {name}(BaseModel):
    model_config = ConfigDict(
        extra="allow",
    )
"""

_PLAIN = frozenset(
    {
        *("type", "enum", "const", "default", "title", "description", "required"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties", "minContains", "maxContains"),
        *("dependentRequired", "deprecated", "readOnly", "writeOnly"),
    }
)
_CLOSING = ("additionalProperties", "unevaluatedProperties")
# What pydantic's expressions mean otherwise than those of JavaScript: classes of Unicode without
# some characters, other ends, and sets in brackets.
_OTHERWISE = re.compile(r"\\[WDSBbAzZ]|\[[^\]]*(?:\[|&&|--|~~)")
FORMAT = "x-format"
"""The keyword for a format, which the models only mention."""
_DEEPEST = 60
_MOST_PARTS = 20_000
_MOST_COMBINATIONS = 500
# The generator takes quadratic time for choices.
_MOST_CHOICES = 1_000
_OWN = frozenset({"params", "result"})
_SHOWN = 100
_MOST = 16
_MOST_SAMPLED = 40
_MOST_WHOLE = 400
_MOST_STEPS = 3_000
_DEEPEST_SAMPLE = 6
_SCALARS: dict[str, list[Any]] = {
    "string": ["text", "é"],
    "integer": (_integers := [1, 1.0, 10**20, 0, -1]),
    "number": [*_integers, 0.5],
    "boolean": [True, False],
    "null": [None],
}
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_RULES = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {*_LIMITS, "multipleOf"},
}
_KINDS = ("object", "array", *_SCALARS)
_NOTHING: Any = object()
_UNKNOWN = "other-property"


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The sources of a tool's `Params` and `Result`, and what differs from its schemas."""

    params: str
    result: str
    notes: tuple[str, ...]


def require_generator() -> None:
    """Check that the generator is installed."""
    try:
        import datamodel_code_generator  # noqa: F401
        import filelock  # noqa: F401
    except ImportError:
        raise ToolImportError("generate", "install 'toolimport[generate]'") from None


def models_of(input_schema: object, output_schema: object | None) -> Models:
    """Generate the models of a tool; for an unsupported schema, one that allows anything."""
    params, notes = _model(input_schema, "Params")
    result, more = ("", ()) if output_schema is None else _model(output_schema, "Result")
    if any(isinstance(it, ast.ClassDef) and it.name == "Params" for it in ast.parse(result).body):
        # This class would replace the tool's own Params.
        result = _ANYTHING.format(name="Result")
        more = ("Result allows anything: its schema has a part called Params",)
    return Models(
        params=params,
        result=result.replace(_FUTURE, "", 1),
        notes=tuple(dict.fromkeys((*notes, *more))),
    )


def _model(schema: object, name: str) -> tuple[str, tuple[str, ...]]:
    try:
        cleaned, notes = cleaned_schema(schema)
        _check_size(cleaned)
        cleaned = _renamed_parts(cleaned)
        if name == "Params" and "object" not in cleaned.get("type", "object"):
            raise ValueError("its schema is not that of an object")
    except (ValueError, TypeError) as error:
        return _ANYTHING.format(name=name), (f"{name} allows anything: {error}",)
    samples = Samples(cleaned)

    def without_wrong_default(node: dict[str, JsonValue]) -> JsonValue:
        if "default" in node and not samples.is_valid(node["default"], node):
            del node["default"]
        return node

    cleaned = cast("dict[str, Any]", mapped(cast("JsonValue", cleaned), without_wrong_default))
    values, plain = samples.values(), without_patterns(cleaned)
    forms = [
        _Form(name, schema, by_name, has_enums, may_be_empty=samples.is_valid({}, cleaned))
        for schema in (cleaned, plain)
        for by_name in (True, False)
        for has_enums in (True, False)
    ]
    problem, closest = "", None
    for form in forms:
        try:
            source, wrong = form.tried(values)
        except Exception as error:  # noqa: BLE001 - of any kind: other tools go on
            problem = problem or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            continue
        if not wrong:
            return source, (*notes, _PATTERN) if form.schema is plain else notes
        closest = closest or (form, wrong)
    if closest is not None:
        form, wrong = closest
        problem = f"no model accepts {', '.join(wrong.values())}, which its schema allows"
        # Let properties be anything until all values are accepted.
        with suppress(Exception):
            while names := sorted(wrong.keys() & form.schema.get("properties", {}).keys()):
                form = form.loosened(names)
                reason = "may be anything: pydantic refuses or changes"
                notes = (*notes, *(f"{it} {reason} {wrong[it]}" for it in names))
                source, wrong = form.tried(values)
                if not wrong:
                    return source, notes
                if wrong.keys() >= set(names):
                    break
    return _ANYTHING.format(name=name), (f"{name} allows anything: {problem[:200]}",)


@dataclass(frozen=True, slots=True)
class _Form:
    """How a model is generated.

    Attributes:
        by_name: Whether a field can be given by its name in Python, besides the server's.
        has_enums: Whether choices become enums, which accept true for 1; otherwise literals.
        may_be_empty: Whether a model without fields can be made without an argument.
    """

    name: str
    schema: dict[str, Any]
    by_name: bool
    has_enums: bool
    may_be_empty: bool

    def tried(self, values: list[JsonValue]) -> tuple[str, dict[str, str]]:
        """Return the source of a model, and which of the values it refuses or changes."""
        source = self._source(by_name=False)
        # Names that are invalid in Python get aliases.
        if self.by_name and "alias=" in source:
            source = self._source(by_name=True)
        is_plain = not {"$ref", "allOf", "anyOf", "oneOf"} & self.schema.keys()
        names = set(self.schema.get("properties", ())) if is_plain else set[str]()
        model = _model_in(source, self.name, names, by_name=self.by_name)
        return source, _refused(model, values)

    def loosened(self, names: Iterable[str]) -> _Form:
        """Return a form in which some properties may be anything."""
        properties = dict(self.schema["properties"])
        for it in names:
            about = properties[it].get("description") if isinstance(properties[it], dict) else None
            properties[it] = {} if about is None else {"description": about}
        return replace(self, schema=self.schema | {"properties": properties})

    def _source(self, *, by_name: bool) -> str:
        from collections import defaultdict

        from datamodel_code_generator import generate
        from datamodel_code_generator.enums import DataModelType, InputFileType
        from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion
        from datamodel_code_generator.model.base import ALL_MODEL
        from datamodel_code_generator.parser import LiteralType

        config = {"config": {"use_enum_values": True}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = generate(
                json.dumps(self.schema),
                input_file_type=InputFileType.JsonSchema,
                class_name=self.name,
                output_model_type=DataModelType.PydanticV2BaseModel,
                target_python_version=PythonVersion.PY_311,
                extra_template_data=defaultdict(dict, {ALL_MODEL: config}),
                field_extra_keys_without_x_prefix={FORMAT},
                enum_field_as_literal=None if self.has_enums else LiteralType.All,
                use_double_quotes=True,
                use_union_operator=False,
                use_standard_collections=False,
                use_specialized_enum=False,
                output_datetime_class=DatetimeClassType.Datetime,
                allow_population_by_field_name=by_name,
                allow_remote_refs=False,
                custom_file_header=_HEADER,
                formatters=[Formatter.BUILTIN],
            )
        if not isinstance(made, str):
            raise TypeError("the generator returned several modules")
        if self.may_be_empty:
            root = rf"^(class {self.name}\(RootModel.*\n    root: (?:(?! = ).)+)$"
            made = re.sub(root, r"\1 = {}", made, flags=re.M)
        # Pydantic would drop unknown arguments.
        made = re.sub(r"(ConfigDict\(\n)(?!\s*extra=)", r'\1        extra="allow",\n', made)
        if re.search(r"^    model_\w+: ", made, flags=re.M):
            # It would warn about these names.
            made = made.replace("ConfigDict(\n", "ConfigDict(\n        protected_namespaces=(),\n")
        return re.sub(rf"\A{_HEADER}\s*", "", made).rstrip("\n") + "\n"


def _model_in(source: str, name: str, names: set[str], *, by_name: bool) -> type[BaseModel]:
    """Check the generated source, and return its model if that can be built with some fields.

    Importing a module runs it, so it may contain nothing but models; and models that cannot be
    built would make it useless.
    """
    tree = ast.parse(source)
    for node in tree.body:
        if not _is_expected(node):
            raise ValueError(
                f"the generator wrote something that is not a model, in line {node.lineno}"
            )
    from pydantic import BaseModel

    module = ModuleType(f"_toolimport_models_{threading.get_ident()}")
    # pydantic looks up names in the module of a class.
    sys.modules[module.__name__] = module
    try:
        with warnings.catch_warnings():
            # Pydantic warns about fields that shadow an attribute of BaseModel, but they work.
            warnings.simplefilter("ignore")
            exec(compile(tree, f"<{name}>", "exec"), vars(module))  # noqa: S102 - looked at above
            model = vars(module).get(name)
            if not (isinstance(model, type) and issubclass(model, BaseModel)):
                raise TypeError("the generator created no model for it")
            model.model_rebuild()
            model.model_json_schema()
            fields = model.model_fields.items()
            found = {key if it.alias is None else it.alias for key, it in fields}
            for it in vars(module).values() if by_name else ():
                owned = dict(getattr(it, "model_fields", {})) if isinstance(it, type) else {}
                owners = {key if it.alias is None else it.alias: key for key, it in owned.items()}
                if any(owners.get(key, key) != key for key in owned):
                    raise ValueError("the name of a field is another field's name on the server")
            if not names <= found:
                raise ValueError(f"the generator left out {', '.join(sorted(names - found))}")
            return model
    finally:
        del sys.modules[module.__name__]


def _is_expected(node: ast.stmt) -> bool:
    match node:
        case ast.ImportFrom(module=module, level=0):
            return module in _MODULES
        case ast.ClassDef(decorator_list=[], bases=bases):
            return all(
                isinstance(it, ast.Name | ast.Subscript) for it in bases
            ) and _calls_no_strangers(node)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="model_rebuild"), args=[])):
            return True
        case ast.Assign() | ast.AnnAssign():
            return _calls_no_strangers(node)
        case _:
            return False


def _calls_no_strangers(node: ast.stmt) -> bool:
    return all(
        (isinstance(it.func, ast.Name) and _CALLED.fullmatch(it.func.id))
        or (isinstance(it.func, ast.Attribute) and it.func.attr == "model_validate")
        for it in ast.walk(node)
        if isinstance(it, ast.Call)
    )


def cleaned_schema(schema: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Keep only JSON Schema's keywords, and references into the schema itself.

    The generator has additional keywords, with which a server could make it import any module, and
    it would follow references to files and addresses.

    Returns:
        The schema of an object, and notes on what was left out.

    Raises:
        ValueError: It is nested too deeply.
    """
    notes: dict[str, None] = {}
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    made = _cleaned(as_meant(given), notes, 0)
    cleaned: dict[str, JsonValue] = made if isinstance(made, dict) else {}
    if "properties" in cleaned or not {"anyOf", "oneOf", "allOf", "$ref"} & cleaned.keys():
        cleaned.setdefault("type", "object")
    if cleaned.get("type") == "object":
        cleaned.setdefault("properties", {})
    return cleaned, tuple(notes)


def _renamed_parts(schema: dict[str, Any]) -> dict[str, Any]:
    """Rename parts with the names of a module's own models, `Params` and `Result`.

    Otherwise the generator would use these names for the parts, and others for the models.
    """
    others: dict[tuple[str, str], str] = {}
    for key in ("$defs", "definitions"):
        names = schema.get(key, {})
        for name in names:
            # A schema that is just a reference to a part may use the model's name.
            is_whole = schema.get("$ref") == f"#/{key}/{name}"
            if re.sub(r"[\W_]+", "", name).lower() in _OWN and not is_whole:
                other = f"{name}Item"
                while other in names:
                    other += "_"
                others[key, name] = other
    if not others:
        return schema

    def referring(node: dict[str, JsonValue]) -> JsonValue:
        if "$ref" in node:
            # References to parts of the part have the same prefix.
            start, key, name, *rest = [*str(node["$ref"]).split("/"), "", ""]
            if (key, name) in others:
                path = [start, key, others[key, name], *rest[:-2]]
                node["$ref"] = "/".join(path)
        return node

    made = cast("dict[str, Any]", mapped(cast("JsonValue", schema), referring))
    for key in {key for key, _ in others}:
        made[key] = {others.get((key, name), name): it for name, it in made[key].items()}
    return made


def _check_size(schema: dict[str, Any]) -> None:
    """Refuse a schema with too many parts or combinations, all of which are expanded."""
    known: dict[str, int] = {}
    left = _MOST_PARTS

    def alternatives(value: JsonValue) -> int:
        nonlocal left
        if isinstance(value, list):
            for item in value:
                alternatives(item)
        if not isinstance(value, dict):
            return 1
        left -= 1
        choices, common = 0, 1
        for key, item in value.items():
            # A property may have these names too.
            if key in {"anyOf", "oneOf"} and isinstance(item, list):
                choices += sum(map(alternatives, item))
            elif key == "allOf" and isinstance(item, list):
                common *= prod(map(merged, item))
            else:
                alternatives(item)
        found = max(choices, 1) * common
        if found > _MOST_COMBINATIONS or left < 0:
            raise ValueError("its schema has too many parts, or combinations of them")
        return found

    def merged(part: JsonValue) -> int:
        """Count a part of `allOf`, whose references the generator resolves."""
        reference = part.get("$ref") if isinstance(part, dict) else None
        if not isinstance(reference, str):
            return alternatives(part)
        if reference not in known:
            known[reference] = 1  # for a part that refers to itself
            known[reference] = alternatives(target_of(reference, schema))
        return known[reference]

    alternatives(schema)


def _cleaned(schema: JsonValue, notes: dict[str, None], depth: int) -> dict[str, JsonValue] | bool:
    if isinstance(schema, bool) or not isinstance(schema, dict):
        return schema is not False
    if depth > _DEEPEST:
        raise ValueError("its schema is nested too deeply")
    kept: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "$ref":
            if isinstance(value, str) and value.startswith("#"):
                kept[key] = value
            else:
                notes["a reference out of its schema was ignored"] = None
        elif key in ONE:
            kept[key] = (
                [_cleaned(item, notes, depth + 1) for item in value]
                if isinstance(value, list)
                else value
                if isinstance(value, bool)
                else _cleaned(value, notes, depth + 1)
            )
        elif key in MANY and isinstance(value, list):
            kept[key] = [_cleaned(item, notes, depth + 1) for item in value]
        elif key in NAMED and isinstance(value, dict):
            kept[key] = {name: _cleaned(item, notes, depth + 1) for name, item in value.items()}
        elif key == "enum" and isinstance(value, list) and len(value) > _MOST_CHOICES:
            notes[f"a list of more than {_MOST_CHOICES:,} choices was left out"] = None
        elif key == "pattern" and isinstance(value, str) and _OTHERWISE.search(value):
            notes["a pattern that pydantic would read in another way was left out"] = None
        elif key in _PLAIN:
            kept[key] = value
        elif key == "format" and isinstance(value, str):
            # A type for a format would change some values and refuse others.
            kept[FORMAT] = value
    # Rules for other properties that the generator would apply to all are left out.
    properties, patterns = kept.get("properties"), kept.get("patternProperties")
    is_map = isinstance(patterns, dict) and len(patterns) == 1 and not properties
    if patterns and not (is_map and kept.get("additionalProperties") is False):
        kept = {key: it for key, it in kept.items() if key not in {"patternProperties", *_CLOSING}}
    if properties:
        rules = [key for key in _CLOSING if isinstance(kept.get(key), dict)]
        kept = {key: it for key, it in kept.items() if key not in rules}
    for limit in ("Minimum", "Maximum"):
        # In draft 4 this is a boolean.
        if isinstance(excluded := kept.get(f"exclusive{limit}"), bool):
            del kept[f"exclusive{limit}"]
            if excluded and limit.lower() in kept:
                kept[f"exclusive{limit}"] = kept.pop(limit.lower())
    if not {"enum", "const"} & kept.keys():
        kept |= {"type": _exact(kept["type"])} if "type" in kept else {}
    return kept


def _exact(kinds: JsonValue) -> JsonValue:
    """Allow integers besides floats, which cannot hold long ones; booleans come last."""
    listed = kinds if isinstance(kinds, list) else [kinds]
    if "number" in listed and "integer" not in listed:
        return _exact(["integer", *listed])
    # As the first one, pydantic would take 1.0 for true.
    return sorted(listed, key="boolean".__eq__) if isinstance(kinds, list) else kinds


def _refused(model: type[BaseModel], samples: list[JsonValue]) -> dict[str, str]:
    """Return the properties whose values a model refuses or changes, and an example of each.

    What concerns no single property has the name "".
    """
    from pydantic import ValidationError

    found: dict[str, str] = {}
    for sample in samples:
        members = sample if isinstance(sample, dict) else {}
        try:
            # As callers do; a result is validated, which is the same.
            given = model(**sample) if isinstance(sample, dict) else model.model_validate(sample)
            made = given.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
            if _canonical(sample) == _canonical(made):
                continue
            places = {
                key
                for key in members.keys() | (made.keys() if members else ())
                if (key in members) != (key in made)
                or _canonical(members[key]) != _canonical(made[key])
            }
        except ValidationError as error:
            places = {str((*it["loc"], "")[0]) for it in error.errors(include_url=False)}
        except Exception:  # noqa: BLE001 - of a stranger's schema
            places = {""}
        for place in places or {""}:
            value = sample.get(place) if isinstance(sample, dict) else sample
            found.setdefault(place, json.dumps(value)[:_SHOWN])
    return found


def _canonical(value: JsonValue) -> str:
    """Return a value as JSON, with 1.0 as 1."""

    def number(text: str) -> float:
        return int(made) if (made := float(text)).is_integer() else made

    return json.dumps(json.loads(json.dumps(value), parse_float=number), sort_keys=True)


class Samples:
    """Makes values that a cleaned schema allows."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = cast("JsonValue", schema)
        validator = argument_validator(json.dumps(schema))
        # One that allows anything stands for a schema that is invalid or large.
        is_usable = validator is not None and validator.schema.keys() != {"type"}
        self._validator: Any = validator if is_usable else None
        self._left = _MOST_STEPS

    def values(self) -> list[JsonValue]:
        """Return a handful of values."""
        return [] if self._validator is None else self._of(self._schema, 0)

    def is_valid(self, value: JsonValue, schema: JsonValue) -> bool:
        """Return whether a part of the schema certainly allows a value."""
        try:
            return bool(self._validator.evolve(schema=schema).is_valid(value))
        except Exception:  # noqa: BLE001 - of a stranger's schema
            return False

    def _of(self, schema: JsonValue, depth: int) -> list[JsonValue]:
        self._left -= 1
        if schema is False or depth > _DEEPEST_SAMPLE or self._left < 0:
            return []
        node: dict[str, Any] = schema if isinstance(schema, dict) else {}
        most = _MOST_SAMPLED if "enum" in node else _MOST if depth else _MOST_WHOLE
        valid = (it for it in self._candidates(node, depth) if self.is_valid(it, node))
        return list(islice(valid, most))

    def _candidates(self, node: dict[str, Any], depth: int) -> Iterator[JsonValue]:
        # The whole schema is valid, or there would be no samples, so keywords have their types.
        yield from (node[key] for key in ("default", "const") if key in node)
        yield from node.get("enum", ())
        if "const" in node or "enum" in node:
            return
        for key in ("$ref", "anyOf", "oneOf", "allOf"):
            if key in node:
                rest: JsonValue = {name: it for name, it in node.items() if name != key}
                parts: list[JsonValue] = [node] if key == "$ref" else node[key]
                if key in ("$ref", "allOf"):
                    parts = [self._resolved(it) for it in parts]
                if key == "allOf":
                    for part in parts:
                        rest = _both(part, rest)
                    yield from self._of(rest, depth + 1)
                else:
                    yield from _in_turn(self._of(_both(it, rest), depth + 1) for it in parts)
                return
        # Without a type, a rule for one kind allows every other kind, but is not meant to.
        meant = [kind for kind, rules in _RULES.items() if not rules.isdisjoint(node)]
        kinds: list[str] | str = node.get("type", meant or list(_KINDS))
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind == "object":
                yield from self._objects(node, depth)
            elif kind == "array":
                yield from self._arrays(node, depth)
            elif kind != "string" or "pattern" not in node:
                yield from _scalars(kind, node)

    def _resolved(self, part: JsonValue) -> JsonValue:
        target = target_of(part.get("$ref"), self._schema) if isinstance(part, dict) else None
        return part if target is None else target

    def _objects(self, node: dict[str, Any], depth: int) -> Iterator[JsonValue]:
        named, needed = node.get("properties", {}), set(node.get("required", ()))
        values = {name: self._of(it, depth + 1) for name, it in named.items()}
        values |= {name: ["x"] for name in needed - named.keys()}
        values = {name: its for name, its in values.items() if its}
        least = {name: its[0] for name, its in values.items() if name in needed}
        yield least
        if "propertyNames" not in node:  # which may have a pattern
            others = self._of(node.get("additionalProperties", True), depth + 1)
            values |= {_UNKNOWN: others[:2]} if others else {}
        # All values in a few objects, and each of them without the others.
        for number in range(max(map(len, values.values()), default=0)):
            yield {name: its[number % len(its)] for name, its in values.items()}
        yield from _in_turn([{**least, name: it} for it in its] for name, its in values.items())

    def _arrays(self, node: dict[str, Any], depth: int) -> Iterator[JsonValue]:
        values = self._of(node.get("items", True), depth + 1)
        firsts = (self._of(it, depth + 1)[:1] for it in node.get("prefixItems", ()))
        first = [value for its in firsts for value in its]
        more = min(node.get("minItems", 0), 20) - len(first)
        yield [*first, *values]
        yield first
        yield from ([*first, *[value] * max(more, 1)] for value in values)


def _scalars(kind: str, node: dict[str, Any]) -> Iterator[JsonValue]:
    """Yield values of a kind, and some at the limits that a schema sets."""
    values = _SCALARS.get(kind, [])
    if kind == "string":
        length = min(node.get("minLength", 0), 1000)
        values = [*(it.ljust(length, "x") for it in values), "x" * length]
    elif kind in ("integer", "number"):
        ends = [node[key] for key in _LIMITS if key in node]
        near = (0, 1, -1) if kind == "integer" else (0, 1, -1, 0.5, -0.5)
        step = [node["multipleOf"]] if "multipleOf" in node else []
        values = [*values, *step, *(end + off for end in ends for off in near)]
    yield from values


def _in_turn(lists: Iterable[list[JsonValue]]) -> Iterator[JsonValue]:
    """Yield the first value of each list, then the second of each, and so on."""
    for values in zip_longest(*lists, fillvalue=_NOTHING):
        yield from (it for it in values if it is not _NOTHING)


def _both(part: JsonValue, rest: JsonValue) -> JsonValue:
    """Return a schema that requires two, as far as samples are concerned."""
    if not isinstance(part, dict) or not isinstance(rest, dict):
        return rest if part is True else part
    made: dict[str, Any] = {**rest, **part}
    for key in rest.keys() & part.keys() & {"properties", "$defs", "definitions", "required"}:
        ours, theirs = cast("Any", rest[key]), cast("Any", part[key])
        made[key] = [*ours, *theirs] if key == "required" else {**ours, **theirs}
    return made
