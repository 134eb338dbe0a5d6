"""JSON Schema of annotations, as pydantic generates it in validation mode.

The reference is pydantic's `GenerateJsonSchema`. Titles that it derives from names are left out;
descriptions that it does not see (attribute docstrings, plain strings in `Annotated`) are added.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from toolscan._constants import UNKNOWN, constant
from toolscan._fields import discriminator_values
from toolscan._keywords import Schema, any_of, constrain, is_text, jsonable, literal, mapping
from toolscan._leaves import ARRAYS, CONSTRAINED, LEAVES, OBJECTS, PASS_THROUGH, SETS
from toolscan._metadata import Metadata, annotated, read_constraints, read_metadata
from toolscan._models import subscript_args
from toolscan._namespace import Assigned, ClassFound, External, Scope
from toolscan._source import parse_expression

if TYPE_CHECKING:
    from collections.abc import Callable


_MAX_DEPTH = 100
_MAX_STEPS = 20_000
_MAX_DEFINITIONS = 1_000
# Aliases of aliases, and generic classes that contain themselves, can have infinite schemas. Beyond
# these limits, the schema is `{}`, which allows anything.
_MAX_ARGUMENTS = 300


class Definitions:
    """The `$defs` of a schema, one for each class."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[tuple[ast.AST, str], str] = {}
        self._pending: deque[tuple[str, Callable[[], Schema]]] = deque()

    def reference(self, node: ast.AST, name: str, args: str, read: Callable[[], Schema]) -> Schema:
        """Return a reference to the definition of a class, or of a class with type arguments."""
        key = (node, args)
        if key not in self._names:
            if len(self._names) >= _MAX_DEFINITIONS or len(args) > _MAX_ARGUMENTS:
                return {}
            wanted = f"{name}[{args}]" if args else name
            wanted = "".join(char if char.isalnum() or char in "_.-" else "_" for char in wanted)
            # Different classes of the same name need different definitions.
            same = sum(used.split("__")[0] == wanted for used in self._names.values())
            self._names[key] = f"{wanted}__{same + 1}" if same else wanted
            self._pending.append((self._names[key], read))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def complete(self) -> dict[str, Schema]:
        """Read the classes that were referred to, and those that they refer to."""
        while self._pending:
            name, read = self._pending.popleft()
            self.schemas[name] = read()
        return self.schemas


class TypeReader:
    """Reads annotations; `define` reads classes."""

    def __init__(self, definitions: Definitions, define: Callable[..., Schema]) -> None:
        self.definitions = definitions
        self._define = define
        self._steps = 0

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
                return {} if inner is None else self.read(inner, lazy(scope), outer, depth + 1)
            case ast.BinOp(op=ast.BitOr()):
                return self._union(union_members(node), scope, outer, depth)
            case ast.Subscript():
                return self._subscript(node, scope, outer, depth)
            case ast.Call():
                return self._call(node, scope, outer, depth)
            case ast.Name() | ast.Attribute():
                return self._named(node, scope, outer, depth)
            case _:
                return {}

    def _exhausted(self, depth: int) -> bool:
        self._steps += 1
        return depth > _MAX_DEPTH or self._steps > _MAX_STEPS

    def _named(
        self, node: ast.Name | ast.Attribute, scope: Scope, outer: Metadata, depth: int
    ) -> Schema:
        if isinstance(node, ast.Name) and node.id in scope.variables:
            argument, where = scope.variables[node.id]
            return self.read(argument, where, outer, depth + 1)
        match scope.meaning(node):
            case ClassFound() as found:
                return constrain(self._reference(found, [], scope), outer.constraints)
            case Assigned() as alias:
                return self._alias(alias, [], scope, outer, depth)
            case External(name=name):
                return self._external(name, [], scope, outer, depth)
            case _:
                return {}

    def _subscript(self, node: ast.Subscript, scope: Scope, outer: Metadata, depth: int) -> Schema:
        args = subscript_args(node)
        match scope.meaning(node.value):
            case ClassFound() as found:
                return constrain(self._reference(found, args, scope), outer.constraints)
            case Assigned() as alias:
                return self._alias(alias, args, scope, outer, depth)
            case External(name="typing.Annotated"):
                inner, metadata = annotated(node, scope)
                return self._annotated(inner, read_metadata(metadata, scope), scope, outer, depth)
            case External(name="typing.Optional"):
                return self._union([*args, ast.Constant(None)], scope, outer, depth)
            case External(name="typing.Union"):
                return self._union(args, scope, outer, depth)
            case External(name="typing.Literal"):
                return constrain(literal(self._literals(args, scope, depth)), outer.constraints)
            case External(name=name):
                return self._external(name, args, scope, outer, depth)
            case _:
                return {}

    def _annotated(
        self, inner: ast.expr, own: Metadata, scope: Scope, outer: Metadata, depth: int
    ) -> Schema:
        restricted = replace(
            own,
            constraints=own.constraints | outer.constraints,
            discriminator=outer.discriminator or own.discriminator,
        )
        return describe(self.read(inner, scope, restricted, depth + 1), own)

    def refer(self, found: ClassFound, scope: Scope) -> Schema:
        """Return a reference to a class."""
        return self._reference(found, [], scope)

    def _reference(self, found: ClassFound, args: list[ast.expr], scope: Scope) -> Schema:
        given = _written(args, scope)
        return self.definitions.reference(
            found.node, found.node.name, given, lambda: self._define(self, found, args, scope)
        )

    def _alias(
        self, alias: Assigned, args: list[ast.expr], scope: Scope, outer: Metadata, depth: int
    ) -> Schema:
        there = scope.before(alias.position)
        if args:
            names = alias.type_params or _free_variables(alias.value, there)
            filled = {name: (arg, scope) for name, arg in zip(names, args, strict=False)}
            there = there._replace(variables={**there.variables, **filled})
        if not alias.is_type_statement or outer.constraints:
            return self.read(alias.value, there, outer, depth + 1)
        there = lazy(there)
        given = _written(args, scope)
        return self.definitions.reference(
            alias.value, alias.name, given, lambda: self.read(alias.value, there)
        )

    def _union(self, nodes: list[ast.expr], scope: Scope, outer: Metadata, depth: int) -> Schema:
        members = self._members(nodes, scope, depth)
        some = [member for member in members if not _is_none(member[0])]
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
            if isinstance(target, ast.Subscript) and self._is_literal(target, where):
                values += self._literals(subscript_args(target), where, depth + 1)
            else:
                value = constant(node, scope)
                values.append(UNKNOWN if isinstance(value, list | dict) else value)
        return values

    def _is_literal(self, node: ast.Subscript, scope: Scope) -> bool:
        return scope.qualified(node.value) == "typing.Literal"

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


def lazy(scope: Scope) -> Scope:
    """Return the scope in which a forward reference is looked up."""
    return scope._replace(lazy=True)


def union_members(node: ast.expr) -> list[ast.expr]:
    """Return the members of `A | B | C`, whose tree is nested to the left."""
    members: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        members.append(node.right)
        node = node.left
    return [node, *reversed(members)]


def describe(schema: Schema, metadata: Metadata) -> Schema:
    """Add descriptive keywords to the schema of a type."""
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


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _free_variables(node: ast.expr, scope: Scope) -> list[str]:
    """Return the type variables in a plain generic alias, in the order of their first use."""
    names: dict[str, None] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found = scope.lookup(part)
            if (
                isinstance(found, Assigned)
                and isinstance(found.value, ast.Call)
                and scope.qualified(found.value.func) == "typing.TypeVar"
            ):
                names[part.id] = None
    return list(names)
