"""JSON Schema of annotations and classes, as pydantic generates it in validation mode.

The reference is pydantic's `GenerateJsonSchema`. Titles that it derives from names are left out;
descriptions that it does not see (attribute docstrings, plain strings in `Annotated`) are added.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from toolscan._classes import (
    Kind,
    configuration,
    filled_variable,
    free_variables,
    has_unknown_parent,
    kind_of,
    root_annotation,
    writes_own_schema,
)
from toolscan._constants import UNKNOWN, constant, members
from toolscan._fields import (
    Declared,
    Metadata,
    annotated,
    declared_fields,
    discriminator_values,
    read_constraints,
    read_extra,
    read_metadata,
)
from toolscan._keywords import (
    ARRAYS,
    CONSTRAINED,
    LEAVES,
    OBJECTS,
    PASS_THROUGH,
    SETS,
    Schema,
    any_of,
    constrain,
    is_text,
    jsonable,
    literal,
    mapping,
    type_of,
)
from toolscan._namespace import Assigned, ClassFound, External, Scope, subscript_args
from toolscan._source import docstring, parse_expression

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_DEPTH = 100
_MAX_STEPS = 20_000
_MAX_DEFINITIONS = 1_000
# Aliases of aliases, and generic classes that contain themselves, can have infinite schemas. Beyond
# these limits, the schema is `{}`, which allows anything.
_MAX_ARGUMENTS = 300


class TypeReader:
    """Reads annotations into schemas, and the classes that they refer to into definitions."""

    def __init__(self) -> None:
        self._definitions: dict[str, Schema] = {}
        self._names: dict[tuple[ast.AST, str], str] = {}
        self._pending: deque[tuple[str, Callable[[], Schema]]] = deque()
        self._steps = 0

    def definitions(self) -> dict[str, Schema]:
        while self._pending:
            name, read = self._pending.popleft()
            self._definitions[name] = read()
        return self._definitions

    def _refer_to(
        self,
        node: ast.AST,
        name: str,
        args: list[ast.expr],
        scope: Scope,
        read: Callable[[], Schema],
    ) -> Schema:
        """Return a reference to the definition of a class or alias with its type arguments."""
        given = _written(args, scope)
        key = (node, given)
        if key not in self._names:
            if len(self._names) >= _MAX_DEFINITIONS or len(given) > _MAX_ARGUMENTS:
                return {}
            wanted = f"{name}[{given}]" if given else name
            wanted = "".join(char if char.isalnum() or char in "_.-" else "_" for char in wanted)
            # Different classes of the same name need different definitions.
            same = sum(used.split("__")[0] == wanted for used in self._names.values())
            self._names[key] = f"{wanted}__{same + 1}" if same else wanted
            self._pending.append((self._names[key], read))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def read(
        self, node: ast.expr, scope: Scope, outer: Metadata | None = None, depth: int = 0
    ) -> Schema:
        """Return the schema of an annotation.

        Args:
            node: The annotation.
            scope: Where its names are looked up.
            outer: Metadata from outside. Only its constraints are used here, because they apply to
                the type inside an `Optional`; the caller adds descriptions.
            depth: How many aliases have been followed.
        """
        if depth:
            return self._read(node, scope, outer or Metadata(), depth)
        try:
            return self._read(node, scope, outer or Metadata(), depth)
        except RecursionError:  # the caller may have left less of the stack than the limits need
            return {}

    def _read(self, node: ast.expr, scope: Scope, outer: Metadata, depth: int) -> Schema:
        if self._exhausted(depth):
            return {}
        match node:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str(text)):
                inner = parse_expression(text)
                return (
                    {}
                    if inner is None
                    else self.read(inner, scope._replace(lazy=True), outer, depth + 1)
                )
            case ast.BinOp(op=ast.BitOr()):
                return self._union(union_members(node), scope, outer, depth)
            case ast.Subscript():
                return self._named(node, node.value, subscript_args(node), scope, outer, depth)
            case ast.Call():
                return self._call(node, scope, outer, depth)
            case ast.Name(id=name) if name in scope.variables:
                return self.read(*scope.variables[name], outer, depth + 1)
            case ast.Name() | ast.Attribute():
                return self._named(node, node, [], scope, outer, depth)
            case _:
                return {}

    def _exhausted(self, depth: int) -> bool:
        self._steps += 1
        return depth > _MAX_DEPTH or self._steps > _MAX_STEPS

    def _named(
        self,
        node: ast.expr,
        named: ast.expr,
        args: list[ast.expr],
        scope: Scope,
        outer: Metadata,
        depth: int,
    ) -> Schema:
        match scope.meaning(named):
            case ClassFound() as found:
                return constrain(self.refer(found, args, scope), outer.constraints)
            case Assigned() as alias:
                return self._alias(alias, args, scope, outer, depth)
            case External(name="typing.Annotated") if args:
                inner, metadata = annotated(node, scope)
                own = read_metadata(metadata, scope)
                restricted = replace(
                    own,
                    constraints=own.constraints | outer.constraints,
                    discriminator=outer.discriminator or own.discriminator,
                )
                return describe(self.read(inner, scope, restricted, depth + 1), own)
            case External(name="typing.Optional") if args:
                return self._union([*args, ast.Constant(None)], scope, outer, depth)
            case External(name="typing.Union") if args:
                return self._union(args, scope, outer, depth)
            case External(name="typing.Literal") if args:
                return constrain(literal(self._literals(args, scope, depth)), outer.constraints)
            case External(name=name):
                return self._external(name, args, scope, outer, depth)
            case _:
                return {}

    def refer(self, found: ClassFound, args: list[ast.expr], scope: Scope) -> Schema:
        return self._refer_to(
            found.node, found.node.name, args, scope, lambda: self._class(found, args, scope)
        )

    def _alias(
        self, alias: Assigned, args: list[ast.expr], scope: Scope, outer: Metadata, depth: int
    ) -> Schema:
        there = scope.before(alias.position)
        if args:
            names = alias.type_params or free_variables(alias.value, there)
            if not len(names) == len(args) == 1:
                return {}
            there = there._replace(variables={**there.variables, names[0]: (args[0], scope)})
        if not alias.is_type_statement or outer.constraints:
            return self.read(alias.value, there, outer, depth + 1)
        there = there._replace(lazy=True)
        return self._refer_to(
            alias.value, alias.name, args, scope, lambda: self.read(alias.value, there)
        )

    def _union(self, nodes: list[ast.expr], scope: Scope, outer: Metadata, depth: int) -> Schema:
        members = self._members(nodes, scope, depth)
        some = [
            (node, where)
            for node, where in members
            if not (isinstance(node, ast.Constant) and node.value is None)
        ]
        if not some:
            return {"type": "null"}
        if len(some) == 1:
            inner = self.read(*some[0], outer, depth + 1)
        else:
            choices = [self.read(node, where, None, depth + 1) for node, where in some]
            inner = any_of(choices)
            if outer.discriminator:
                inner = self._tagged(choices, outer.discriminator, some)
            inner = constrain(inner, outer.constraints)
        return any_of([inner, {"type": "null"}]) if len(some) < len(members) else inner

    def _members(
        self, nodes: list[ast.expr], scope: Scope, depth: int
    ) -> list[tuple[ast.expr, Scope]]:
        """Return the members of a union, with nested unions flattened as in typing."""
        members: list[tuple[ast.expr, Scope]] = []
        for node in nodes:
            nested = self._nested_union(node, scope, depth)
            if nested is None:
                members.append((node, scope))
            else:
                members += self._members(*nested, depth + 1)
        return members

    def _nested_union(
        self, node: ast.expr, scope: Scope, depth: int
    ) -> tuple[list[ast.expr], Scope] | None:
        if self._exhausted(depth):
            return None
        match node:
            case ast.BinOp(op=ast.BitOr()):
                return union_members(node), scope
            case ast.Subscript(value=value):
                name = scope.qualified(value)
                if name == "typing.Optional":
                    return [*subscript_args(node), ast.Constant(None)], scope
                return (subscript_args(node), scope) if name == "typing.Union" else None
            case ast.Name() | ast.Attribute():
                alias = scope.meaning(node)
                if isinstance(alias, Assigned) and not alias.is_type_statement:
                    return self._nested_union(alias.value, scope.before(alias.position), depth + 1)
            case _:
                pass
        return None

    def _tagged(
        self, choices: list[Schema], name: str, members: list[tuple[ast.expr, Scope]]
    ) -> Schema:
        mapped: Schema = {}
        names: set[str] = set()
        shown = name
        for choice, (node, scope) in zip(choices, members, strict=True):
            shown, values = discriminator_values(node, scope, name)
            names.add(shown)
            if not values or "$ref" not in choice or len(names) > 1:
                # A discriminator's mapping must list all values.
                return any_of(choices)
            mapped |= dict.fromkeys(values, choice["$ref"])
        return {"oneOf": choices, "discriminator": {"propertyName": shown, "mapping": mapped}}

    def _literals(self, nodes: list[ast.expr], scope: Scope, depth: int) -> list[object]:
        values: list[object] = []
        for node in nodes:
            target, where = node, scope
            alias = scope.meaning(node)
            if isinstance(alias, Assigned) and not self._exhausted(depth):
                target, where = alias.value, scope.before(alias.position)
            if (
                isinstance(target, ast.Subscript)
                and where.qualified(target.value) == "typing.Literal"
            ):
                values += self._literals(subscript_args(target), where, depth + 1)
            else:
                value = constant(node, scope)
                values.append(UNKNOWN if isinstance(value, list | dict) else value)
        return values

    def _call(self, node: ast.Call, scope: Scope, outer: Metadata, depth: int) -> Schema:
        name = scope.qualified(node.func)
        if name == "typing.NewType" and len(node.args) == 2:
            return self.read(node.args[1], scope, outer, depth + 1)
        if name == "typing.TypeVar":
            return self._type_variable(node, scope, outer, depth)
        if name not in CONSTRAINED:
            return {}
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        args = [*node.args[:1], *(given[key] for key in ("item_type",) if key in given)]
        both = replace(outer, constraints=read_constraints(given, scope) | outer.constraints)
        return self._external(CONSTRAINED[name], args, scope, both, depth)

    def _type_variable(self, node: ast.Call, scope: Scope, outer: Metadata, depth: int) -> Schema:
        for keyword in node.keywords:
            if keyword.arg in {"default", "bound"}:
                return self.read(keyword.value, scope, outer, depth + 1)
        choices = node.args[1:]
        return (
            self._union(choices, scope, outer, depth)
            if choices
            else constrain({}, outer.constraints)
        )

    def _external(
        self, name: str, args: list[ast.expr], scope: Scope, outer: Metadata, depth: int
    ) -> Schema:
        def inner(node: ast.expr) -> Schema:
            return self.read(node, scope, None, depth + 1)

        if name in PASS_THROUGH and args:
            return self.read(args[0], scope, outer, depth + 1)
        if name in ARRAYS or name in SETS:
            schema: Schema = {"type": "array", "items": inner(args[0]) if args else {}}
            schema |= {"uniqueItems": True} if name in SETS else {}
        elif name in {"builtins.tuple", "typing.Tuple"}:
            schema = self._tuple(args, inner)
        elif name in OBJECTS:
            if name.endswith(".Counter"):
                schema = mapping(inner(args[0]) if args else {}, {"type": "integer"})
            else:
                schema = mapping(*map(inner, args[:2])) if len(args) > 1 else mapping({}, {})
        elif name == "pydantic.Json" and args:
            schema = {**LEAVES[name], "contentSchema": inner(args[0])}
        elif name == "pydantic.RootModel" and args:
            schema = inner(args[0])
        else:
            schema = LEAVES.get(name, {})
        return constrain(schema, outer.constraints)

    def _tuple(self, args: list[ast.expr], inner: Callable[[ast.expr], Schema]) -> Schema:
        match args:
            case []:
                return {"type": "array", "items": {}}
            case [ast.Tuple(elts=[])]:
                return {"type": "array", "minItems": 0, "maxItems": 0}
            case [item, ast.Constant(value=value)] if value is Ellipsis:
                return {"type": "array", "items": inner(item)}
            case _:
                items = [inner(arg) for arg in args]
                size = {"minItems": len(items), "maxItems": len(items)}
                return {"type": "array", "prefixItems": items, **size}

    def _class(self, found: ClassFound, args: list[ast.expr], scope: Scope) -> Schema:
        text = docstring(found.node.body)
        about: Schema = {"description": text} if text and is_text(text) else {}
        kind = kind_of(found, scope)
        if writes_own_schema(found, scope):
            return about
        if kind is Kind.OTHER:
            return {}
        if kind is Kind.ENUM:
            return _enum(found, scope) | about
        fields = None
        variables = filled_variable(found, args, scope)
        if variables is not None:
            scope = scope._replace(variables=variables)
            fields = declared_fields(found, scope)
        if fields is None:
            is_object = kind not in {Kind.ROOT_MODEL, Kind.NAMED_TUPLE}
            return {"type": "object", **about} if is_object else about
        match kind:
            case Kind.MODEL:
                return self._model(found, fields, about, scope)
            case Kind.ROOT_MODEL:
                return self._root_model(found, fields, about, scope)
            case Kind.NAMED_TUPLE:
                return self._named_tuple(fields)
            case _:
                return self._object(fields, {}) | about

    def _model(
        self, found: ClassFound, fields: list[Declared], about: Schema, scope: Scope
    ) -> Schema:
        config = configuration(found, scope)
        schema = self._object(fields, config) | about
        extra = str(config.get("extra")).removeprefix("pydantic.Extra.")
        if extra == "allow" or (extra == "forbid" and not has_unknown_parent(found, scope)):
            schema["additionalProperties"] = extra == "allow"
        return _configured(schema, config)

    def _root_model(
        self, found: ClassFound, fields: list[Declared], about: Schema, scope: Scope
    ) -> Schema:
        fields = [field for field in fields if field.name == "root"]
        if fields:
            # Metadata of the root field comes before that of the class.
            schema = about | self.declared(fields[0])
        else:
            root = root_annotation(found, scope)
            schema = (self.read(*root) if root else {}) | about
        return _configured(schema, configuration(found, scope))

    def _object(self, fields: list[Declared], config: dict[str, object]) -> Schema:
        properties = {str(it.alias): self.declared(it, config) for it in fields}
        schema: Schema = {"type": "object", "properties": properties}
        if required := [field.alias for field in fields if field.required]:
            schema["required"] = required
        return schema

    def _named_tuple(self, fields: list[Declared]) -> Schema:
        schema: Schema = {"type": "array", "maxItems": len(fields)}
        if fields:
            schema["prefixItems"] = [self.declared(field) for field in fields]
        if needed := sum(field.required for field in fields):
            schema["minItems"] = needed
        return schema

    def declared(
        self, it: Declared, config: dict[str, object] | None = None, described: str = ""
    ) -> Schema:
        """Return the schema of a field or parameter, with its description and default.

        Args:
            it: The field or parameter.
            config: The configuration of its class.
            described: Its description in an Args section, if its type has none.
        """
        schema: Schema = {}
        if it.type is not None and it.metadata.override is None:
            schema = self.read(it.type, it.scope, it.metadata)
        if schema.get("type") == "string" and "format" not in schema and "const" not in schema:
            for name, keyword in (("str_min_length", "minLength"), ("str_max_length", "maxLength")):
                length = config.get(name) if config else None
                if isinstance(length, int) and length and keyword not in schema:
                    schema = schema | {keyword: length}
        schema = describe(schema, it.metadata)
        if it.description and is_text(it.description):
            schema["description"] = it.description
        elif described and "description" not in schema:
            schema["description"] = described
        value = UNKNOWN if it.default is None else jsonable(constant(it.default, it.scope))
        if isinstance(it.default, ast.Set) and isinstance(value, list):
            value = sorted(cast("list[object]", value), key=str)
        return schema if value is UNKNOWN else schema | {"default": value}


def _configured(schema: Schema, config: dict[str, Any]) -> Schema:
    """Apply a model's configuration to its schema; leave the schema open if it is unknown."""
    title = config.get("title")
    if isinstance(title, str) and is_text(title):
        schema = schema | {"title": title}
    if "json_schema_extra" not in config:
        return schema
    more = read_extra(*config["json_schema_extra"])
    if more is None:
        return {key: schema[key] for key in ("description",) if key in schema}
    schema = schema | more
    return {key: value for key, value in schema.items() if value is not UNKNOWN and is_text(key)}


def _enum(found: ClassFound, scope: Scope) -> Schema:
    values = list(members(found, scope).values())
    schema = literal(values)
    if "const" in schema:  # pydantic writes enum even for a single value
        schema["enum"] = [schema.pop("const")]
    kind = type_of(schema.get("enum", []))
    return {key: value for key, value in schema.items() if key != "type"} | kind


def union_members(node: ast.expr) -> list[ast.expr]:
    """Return the members of `A | B | C`, whose tree is nested to the left."""
    members: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        members.append(node.right)
        node = node.left
    return [node, *reversed(members)]


def describe(schema: Schema, metadata: Metadata) -> Schema:
    if metadata.override is not None:
        schema = dict(metadata.override)
    described = schema | {key: jsonable(value) for key, value in metadata.annotations.items()}
    if metadata.description and is_text(metadata.description):
        described["description"] = metadata.description
    return {key: value for key, value in described.items() if value is not UNKNOWN}


def _written(args: list[ast.expr], scope: Scope) -> str:
    """Return type arguments as text, with type variables replaced by what they stand for."""
    try:
        texts = [ast.unparse(arg) for arg in args]
    except RecursionError:
        return "…" * (_MAX_ARGUMENTS + 1)
    for name, (arg, where) in scope.variables.items():
        pattern = re.compile(rf"\b{re.escape(name)}\b")
        if any(pattern.search(text) for text in texts):
            filled = _written([arg], where)
            texts = [filled.join(pattern.split(text)) for text in texts]
    return ", ".join(texts)[: _MAX_ARGUMENTS + 1]
