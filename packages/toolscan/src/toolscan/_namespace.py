"""Resolving names in a module, at the place where they are used.

Nothing is imported: a name is resolved to a class or an assignment in the module itself, or to the
qualified name of an import statement.
"""

from __future__ import annotations

import ast
import builtins
import sys
import typing
from bisect import bisect_left
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from toolscan._source import Statement, top_level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ClassFound(NamedTuple):
    """A class of the module."""

    node: ast.ClassDef
    position: int


class Assigned(NamedTuple):
    """A name bound to an expression: a type alias, a constant, a constrained type."""

    name: str
    value: ast.expr
    position: int
    is_type_statement: bool = False
    type_params: tuple[str, ...] = ()


class External(NamedTuple):
    """Something of another module, by its qualified name."""

    name: str


Meaning = ClassFound | Assigned | External
_Value = ast.expr | None

_BUILTINS = frozenset(dir(builtins))
# Python 3.13 creates the last two lazily, so `dir` does not list them.
_TYPING = frozenset(name for name in dir(typing) if name[0] != "_") | {"Pattern", "Match"}
# The name used here for something that can be imported from several modules.
_PYDANTIC_MODULES = (
    "main fields types networks config root_model dataclasses json_schema aliases alias_generators"
)
_HOMES = {
    "typing_extensions": "typing",
    "_collections_abc": "collections.abc",
    **{f"pydantic.{name}": "pydantic" for name in _PYDANTIC_MODULES.split()},
}
_TRUSTED = sys.stdlib_module_names | {"pydantic", "typing_extensions", "annotated_types"}
_MAX_BRANCHES = 50
_MAX_ANCESTORS = 300
"""A class with more is left open, because collecting its fields would take too long."""
_MAX_NAMES = 20
"""How many aliases are followed."""
_CHANGING = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("remove", "reverse", "setdefault", "sort", "update"),
}
"""Methods that change a list, a set or a dictionary after its creation."""


class _Binding(NamedTuple):
    """A binding of a name; its meaning is `None` if it is unknown."""

    position: int
    meaning: Meaning | None
    conditional: bool


def _at(bindings: list[_Binding], position: int) -> Meaning | None:
    """Return what a name means at a position; a forward reference means the last binding."""
    if len(bindings) == 1:
        return bindings[0].meaning
    end = bisect_left(bindings, position, key=attrgetter("position")) or len(bindings)
    start = end - 1
    while start and bindings[start].conditional and end - start <= _MAX_BRANCHES:
        start -= 1
    return _only([binding.meaning for binding in bindings[start:end]])


def _only(candidates: list[Meaning | None]) -> Meaning | None:
    """Choose between the bindings of a name in several branches; return `None` if they differ.

    An import has precedence over whatever replaces it if it fails; of several imports, that of a
    known module. For other bindings, only running the module would tell.
    """
    if len(candidates) == 1:
        return candidates[0]
    if len(candidates) > _MAX_BRANCHES:
        return None
    imports = [found for found in candidates if isinstance(found, External)]
    trusted = (it for it in imports if it.name.partition(".")[0] in _TRUSTED)
    if imports:
        return next(trusted, imports[0])
    return candidates[-1] if len({_identity(found) for found in candidates}) == 1 else None


def _identity(found: Meaning | None) -> object:
    # Branches may bind equal values; comparing large expressions is not worth the time.
    if isinstance(found, Assigned) and isinstance(found.value, ast.Constant | ast.Name):
        return ast.dump(found.value)
    return id(found)


class Namespace:
    """The names that a module binds at its top level, each with all its bindings in order."""

    def __init__(self, statements: list[Statement]) -> None:
        self._bindings: dict[str, list[_Binding]] = {}
        self._typing_only: dict[str, list[_Binding]] = {}
        self._stars: list[str] = []
        self._hidden: dict[ast.ClassDef, dict[str, ast.stmt]] = {}
        self._bodies: dict[ast.ClassDef, dict[str, list[tuple[tuple[int, int], _Value]]]] = {}
        self.ancestries: dict[ast.ClassDef, Ancestry] = {}
        self.enums: dict[ast.ClassDef, dict[str, object]] = {}
        self.values: dict[ast.expr, tuple[object, int]] = {}
        """A cache of the values of enums, and of constants with their sizes."""
        self.reused = 0
        self.memo: dict[tuple[ast.AST, str], object] = {}
        """A cache of anything else that is needed repeatedly."""
        self.changed: set[str] = set()
        """Names whose object is changed after its creation: `NAMES.append(…)`."""
        self.lazy = False
        """Whether annotations are text, evaluated after their class exists."""
        self.end = 0
        """The position after the last statement."""
        for position, (node, conditional, for_type_checkers) in enumerate(statements):
            table = self._typing_only if for_type_checkers else self._bindings
            for name, meaning in self._bound(node, position):
                table.setdefault(name, []).append(_Binding(position, meaning, conditional))
            self.end = position + 1

    def _bound(self, node: ast.stmt, position: int) -> Iterator[tuple[str, Meaning | None]]:
        match node:
            case ast.ClassDef(name=name):
                yield name, ClassFound(node, position)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, None
            case ast.ImportFrom(module=module, level=level, names=aliases):
                source = "." * level + (module or "")
                if source == "__future__":
                    self.lazy = self.lazy or any(alias.name == "annotations" for alias in aliases)
                for alias in aliases:
                    if alias.name == "*":
                        self._stars.append(source)
                    yield alias.asname or alias.name, _external(source, alias.name)
            case ast.Import(names=aliases):
                for alias in aliases:
                    bound = alias.asname or alias.name.partition(".")[0]
                    yield bound, External(alias.name if alias.asname else bound)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))):
                if method in _CHANGING:
                    self.changed.add(name)
            case _ if type(node).__name__ == "TypeAlias":  # Python 3.12 and later
                yield _type_statement(node, position)
            case _:
                for name, value in bound_values(node):
                    yield name, Assigned(name, value, position) if value is not None else None
                self.changed.update(changed_names(node))

    def lookup(self, name: str, position: int) -> Meaning | None:
        """Return what a name means to the statement at a position.

        The last binding before the position counts. If there is none, the name is a forward
        reference, which pydantic looks up when the whole module has run.
        """
        bindings = self._bindings.get(name) or self._typing_only.get(name)
        if bindings is None:
            return self._starred(name) or (
                External(f"builtins.{name}") if name in _BUILTINS else None
            )
        return _at(bindings, position)

    def bound_in(self, owner: ast.ClassDef, name: ast.Name) -> tuple[bool, _Value]:
        """Return whether a class body binds a name before its use, and to what."""
        if owner not in self._bodies:
            self._bodies[owner] = names = dict[str, list[tuple[tuple[int, int], _Value]]]()
            for statement in top_level(owner.body):
                node = statement.node
                for bound, value in bound_values(node):
                    where = (node.lineno, node.col_offset)
                    known = None if statement.conditional else value
                    names.setdefault(bound, []).append((where, known))
        bindings = self._bodies[owner].get(name.id, [])
        place = (name.lineno, name.col_offset)
        # The statement that contains a name begins before the name, but binds after it.
        before = bisect_left(bindings, place, key=lambda binding: binding[0])
        if before and _holds(bindings[before - 1][1], name):
            before -= 1
        return (True, bindings[before - 1][1]) if before else (False, None)

    def hidden_by(self, owner: ast.ClassDef) -> dict[str, ast.stmt]:
        """Return the names that mean something else in the body of a class."""
        if owner not in self._hidden:
            self._hidden[owner] = names = dict[str, ast.stmt]()
            for node in owner.body:
                if isinstance(node, ast.ClassDef):
                    names.setdefault(node.name, node)
                # `date: date | None = None` hides the class `date` behind the field's default.
                elif (
                    isinstance(node, ast.AnnAssign)
                    and isinstance(node.target, ast.Name)
                    and isinstance(node.value, ast.Constant)
                    and node.value.value is None
                ):
                    names.setdefault(node.target.id, node)
        return self._hidden[owner]

    def _starred(self, name: str) -> External | None:
        """Guess which `from … import *` a name comes from; only typing's names are known here."""
        if name in _TYPING:
            return External(f"typing.{name}") if "typing" in self._stars else None
        others = [module for module in self._stars if module != "typing"]
        return _external(others[-1], name) if others and name not in _BUILTINS else None


class Scope(NamedTuple):
    """A place in a module where names are looked up."""

    namespace: Namespace
    position: int
    owner: ast.ClassDef | None = None
    """The class whose body contains the name."""
    lazy: bool = False
    """Whether names are looked up when the class exists, rather than while its body runs."""
    variables: Mapping[str, tuple[ast.expr, Scope]] = MappingProxyType({})
    """What type variables stand for."""

    def lookup(self, name: ast.Name) -> Meaning | None:
        if self.owner is not None:
            if found := self._in_class(self.owner, name):
                return found
            if self.lazy and name.id == self.owner.name:
                return ClassFound(self.owner, self.position)
        return self.namespace.lookup(name.id, self.position)

    def _in_class(self, owner: ast.ClassDef, name: ast.Name) -> Meaning | None:
        node = self.namespace.hidden_by(owner).get(name.id)
        if node is None or (not self.lazy and node.lineno > name.lineno):
            return None
        if isinstance(node, ast.ClassDef):
            return ClassFound(node, self.position)
        return Assigned(name.id, ast.Constant(None), self.position)

    def value(self, name: ast.Name) -> Meaning | None:
        """Return what a name means as a value, which may come from the body of its class."""
        if self.owner is not None:
            inside, value = self.namespace.bound_in(self.owner, name)
            if inside:
                return None if value is None else Assigned(name.id, value, self.position)
        return self.lookup(name)

    def meaning(self, node: ast.expr, followed: int = 0) -> Meaning | None:
        """Return what a name or a dotted name means; `None` if unknown, or for other expressions.

        An alias such as `Opt = typing.Optional` is followed to its target.
        """
        if isinstance(node, ast.Name):
            return self._followed(self.lookup(node), followed)
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        found = self._followed(self.lookup(node), followed)
        while attributes and found:
            found = self._attribute(found, attributes.pop())
        return found

    def _attribute(self, found: Meaning, name: str) -> Meaning | None:
        match found:
            case External(name=module):
                return _external(module, name)
            case ClassFound(node=owner, position=position):
                inner = self.namespace.hidden_by(owner).get(name)
                return ClassFound(inner, position) if isinstance(inner, ast.ClassDef) else None
            case _:
                return None

    def _followed(self, found: Meaning | None, followed: int) -> Meaning | None:
        if not isinstance(found, Assigned) or found.is_type_statement:
            return found
        if not isinstance(found.value, ast.Name | ast.Attribute) or followed > _MAX_NAMES:
            return found
        return self.before(found.position).meaning(found.value, followed + 1)

    def qualified(self, node: ast.expr) -> str:
        """Return the qualified name of something imported or built in; "" for anything else."""
        found = self.meaning(node)
        return found.name if isinstance(found, External) else ""

    def at(self, found: ClassFound) -> Scope:
        return Scope(
            self.namespace, found.position, found.node, self.namespace.lazy, self.variables
        )

    def before(self, position: int) -> Scope:
        return Scope(self.namespace, position, None, self.lazy, self.variables)


class Ancestor(NamedTuple):
    """A base class that another module defines, with its subscript: `RootModel[int]`."""

    name: str
    node: ast.expr
    position: int
    """Where it is looked up. A scope would form a cycle, which only the garbage collector frees."""


class Ancestry(NamedTuple):
    """A class and its ancestors in this module in method resolution order, and those elsewhere.

    Attributes:
        is_certain: Whether this is Python's order, with at most one type argument for each class.
    """

    classes: list[ClassFound]
    others: list[Ancestor]
    is_certain: bool


def ancestry(found: ClassFound, scope: Scope) -> Ancestry:
    """Return the ancestors of a class: each base, followed by its own bases, from left to right.

    That is Python's order unless two bases share an ancestor in this module.
    """
    cache = scope.namespace.ancestries
    if found.node in cache:
        return cache[found.node]
    classes: dict[ast.ClassDef, ClassFound] = {}
    others: list[Ancestor] = []
    is_certain = True
    pending = [found]
    while pending:
        own = pending.pop()
        if own.node in classes or len(classes) == _MAX_ANCESTORS:
            is_certain = False
            continue
        classes[own.node] = own
        # A base is evaluated before its class exists, so the class's own name means an earlier one.
        outside = Scope(scope.namespace, own.position, None, scope.lazy)
        known: list[ClassFound] = []
        for base in own.node.bases[: _MAX_ANCESTORS + 1]:
            meaning = outside.meaning(base.value if isinstance(base, ast.Subscript) else base)
            if isinstance(meaning, ClassFound) and meaning.node is not own.node:
                known.append(meaning)
                is_certain &= not isinstance(base, ast.Subscript) or len(subscript_args(base)) == 1
            else:
                name = meaning.name if isinstance(meaning, External) else ""
                others.append(Ancestor(name, base, own.position))
        pending += reversed(known)
    cache[found.node] = result = Ancestry(list(classes.values()), others, is_certain)
    return result


def subscript_args(node: ast.Subscript) -> list[ast.expr]:
    match node.slice:
        case ast.Tuple(elts=[_, *_] as several):
            return several
        case one:  # includes `tuple[()]`
            return [one]


def _type_statement(node: ast.stmt, position: int) -> tuple[str, Assigned]:
    name: str = getattr(node, "name").id  # noqa: B009  (unknown to the oldest Python we support)
    params = tuple(param.name for param in getattr(node, "type_params"))  # noqa: B009
    value: ast.expr = getattr(node, "value")  # noqa: B009
    return name, Assigned(name, value, position, True, params)


def _holds(value: ast.expr | None, name: ast.Name) -> bool:
    if value is None:
        return False
    place = (name.lineno, name.col_offset)
    end = (value.end_lineno or value.lineno, value.end_col_offset or 0)
    return (value.lineno, value.col_offset) <= place < end


def _external(module: str, name: str) -> External:
    return External(f"{_HOMES.get(module, module)}.{name}")


def bound_values(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a statement binds, with their values if it contains them."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name, None
        case ast.Delete(targets=targets):
            yield from ((it.id, None) for it in targets if isinstance(it, ast.Name))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, None
        case _:
            pass


def _unpacked(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Starred(value=inner):
            yield from _unpacked(inner, None)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            values: list[ast.expr | None] = [None] * len(targets)
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            starred = any(isinstance(it, ast.Starred) for it in [*targets, *parts])
            if len(parts) == len(targets) and not starred:
                values = list(parts)
            for inner, item in zip(targets, values, strict=True):
                yield from _unpacked(inner, item)
        case _:
            pass


def changed_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names whose objects a statement changes: `D["b"] = 2`, `LIMITS.most = 3`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        inner = target
        while isinstance(inner, ast.Subscript | ast.Attribute):
            inner = inner.value
        changes = inner is not target or isinstance(node, ast.AugAssign)
        if changes and isinstance(inner, ast.Name):
            yield inner.id
