"""What a name means in a module, at the place where it is used.

Nothing is imported: a name leads to a class or an assignment of the module itself, or to the
qualified name that an import statement gives it.
"""

from __future__ import annotations

import ast
import builtins
import typing
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolscan._syntax import Statement

__all__ = ["Assigned", "ClassFound", "External", "Meaning", "Namespace", "Scope"]


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

_BUILTINS = frozenset(dir(builtins))
# Python 3.13 makes the last two only when they are asked for.
_TYPING = frozenset(name for name in dir(typing) if name[0] != "_") | {"Pattern", "Match"}
# Where the same thing can be imported from several places, the place we name it by.
_HOMES = {
    "typing_extensions": "typing",
    "_collections_abc": "collections.abc",
    "pydantic.main": "pydantic",
    "pydantic.fields": "pydantic",
    "pydantic.types": "pydantic",
    "pydantic.networks": "pydantic",
    "pydantic.config": "pydantic",
    "pydantic.root_model": "pydantic",
    "pydantic.dataclasses": "pydantic",
    "pydantic.json_schema": "pydantic",
    "pydantic.aliases": "pydantic",
    "pydantic.alias_generators": "pydantic",
}


class Namespace:
    """The names that a module binds at its top level, each with all its bindings in order."""

    __slots__ = ("_bindings", "_hidden", "_stars", "bases", "end", "lazy", "orders")

    def __init__(self, statements: list[Statement]) -> None:
        self._bindings: dict[str, list[tuple[int, Meaning]]] = {}
        self._stars: list[str] = []
        self._hidden: dict[ast.ClassDef, dict[str, ast.stmt]] = {}
        self.bases: dict[ast.ClassDef, object] = {}
        self.orders: dict[ast.ClassDef, list[ClassFound]] = {}
        """Room for what is worked out about each class: its bases, and all its ancestors."""
        self.lazy = False
        """Whether annotations are evaluated after their class exists, as text."""
        self.end = 0
        """The position after the last statement."""
        for position, statement in enumerate(statements):
            self._bind(statement.node, position)
            self.end = position + 1

    def _bind(self, node: ast.stmt, position: int) -> None:
        match node:
            case ast.ClassDef(name=name):
                self._add(name, position, ClassFound(node, position))
            case ast.ImportFrom(module=module, level=level, names=aliases):
                source = "." * level + (module or "")
                if source == "__future__":
                    self.lazy = self.lazy or any(alias.name == "annotations" for alias in aliases)
                for alias in aliases:
                    if alias.name == "*":
                        self._stars.append(source)
                    self._add(alias.asname or alias.name, position, _external(source, alias.name))
            case ast.Import(names=aliases):
                for alias in aliases:
                    bound = alias.asname or alias.name.partition(".")[0]
                    named = alias.name if alias.asname else bound
                    self._add(bound, position, External(named))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._add(name, position, Assigned(name, value, position))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._add(name, position, Assigned(name, value, position))
            case _ if type(node).__name__ == "TypeAlias":  # Python 3.12 and later
                self._add_type_statement(node, position)
            case _:
                pass

    def _add_type_statement(self, node: ast.stmt, position: int) -> None:
        name: str = getattr(node, "name").id  # noqa: B009  (unknown to the oldest Python we support)
        params = tuple(param.name for param in getattr(node, "type_params"))  # noqa: B009
        value: ast.expr = getattr(node, "value")  # noqa: B009
        self._add(name, position, Assigned(name, value, position, True, params))

    def _add(self, name: str, position: int, meaning: Meaning) -> None:
        self._bindings.setdefault(name, []).append((position, meaning))

    def lookup(self, name: str, position: int) -> Meaning | None:
        """Give what a name means to the statement at a position.

        The last binding before it counts; where there is none, the name is a forward reference,
        and pydantic looks it up when the whole module has run.
        """
        bindings = self._bindings.get(name)
        if bindings is None:
            return self._starred(name) or (
                External(f"builtins.{name}") if name in _BUILTINS else None
            )
        before = [meaning for at, meaning in bindings if at < position]
        return before[-1] if before else bindings[-1][1]

    def hidden_by(self, owner: ast.ClassDef) -> dict[str, ast.stmt]:
        """Give the names that mean something else in the body of a class."""
        if owner not in self._hidden:
            self._hidden[owner] = names = dict[str, ast.stmt]()
            for node in owner.body:
                match node:
                    # `date: date | None = None` hides the class date behind its own default.
                    case (
                        ast.ClassDef(name=name)
                        | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=None))
                    ):
                        names.setdefault(name, node)
                    case _:
                        pass
        return self._hidden[owner]

    def _starred(self, name: str) -> External | None:
        """Guess which `from … import *` a name comes from: only typing's names are known to us."""
        if name in _TYPING:
            return External(f"typing.{name}") if "typing" in self._stars else None
        others = [module for module in self._stars if module != "typing"]
        return _external(others[-1], name) if others and name not in _BUILTINS else None


class Scope(NamedTuple):
    """A place in a module at which names are looked up."""

    namespace: Namespace
    position: int
    owner: ast.ClassDef | None = None
    """The class in whose body the name stands."""
    lazy: bool = False
    """Whether the name is looked up when its class exists already, not while its body runs."""
    variables: Mapping[str, tuple[ast.expr, Scope]] = MappingProxyType({})
    """What type variables stand for."""

    def lookup(self, name: ast.Name) -> Meaning | None:
        """Give what a name means here."""
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

    def meaning(self, node: ast.expr) -> Meaning | None:
        """Give what a name or a dotted name means; `None` for anything else or unknown."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        found = self.lookup(node)
        while attributes and found:
            found = _attribute(found, attributes.pop())
        return found

    def qualified(self, node: ast.expr) -> str:
        """Give the qualified name of something imported or built in, "" for anything else."""
        found = self.meaning(node)
        return found.name if isinstance(found, External) else ""

    def at(self, found: ClassFound) -> Scope:
        """Give the scope of the body of a class."""
        return Scope(
            self.namespace, found.position, found.node, self.namespace.lazy, self.variables
        )

    def before(self, position: int) -> Scope:
        """Give the scope of a top-level statement."""
        return Scope(self.namespace, position, None, self.lazy, self.variables)


def _attribute(found: Meaning, name: str) -> Meaning | None:
    match found:
        case External(name=module):
            return _external(module, name)
        case ClassFound(node=owner, position=position):
            inner = (node for node in owner.body if isinstance(node, ast.ClassDef))
            return next((ClassFound(node, position) for node in inner if node.name == name), None)
        case _:
            return None


def _external(module: str, name: str) -> External:
    return External(f"{_HOMES.get(module, module)}.{name}")
