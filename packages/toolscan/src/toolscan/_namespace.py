"""What a name means in a module, at the place where it is used.

Nothing is imported: a name leads to a class or an assignment of the module itself, or to the
qualified name that an import statement gives it.
"""

from __future__ import annotations

import ast
import builtins
from typing import NamedTuple

from toolscan._syntax import top_level

__all__ = ["Assigned", "ClassFound", "External", "Meaning", "Namespace"]


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

    __slots__ = ("_bindings", "end", "lazy")

    def __init__(self, module: ast.Module) -> None:
        self._bindings: dict[str, list[tuple[int, Meaning]]] = {}
        self.lazy = False
        """Whether annotations are evaluated after their class exists, as text."""
        self.end = 0
        """The position after the last statement."""
        for position, statement in enumerate(top_level(module.body)):
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
            return External(f"builtins.{name}") if name in _BUILTINS else None
        before = [meaning for at, meaning in bindings if at < position]
        return before[-1] if before else bindings[-1][1]

    def meaning(self, node: ast.expr, position: int) -> Meaning | None:
        """Give what a name or a dotted name means; `None` for anything else or unknown."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        found = self.lookup(node.id, position)
        if not attributes:
            return found
        if isinstance(found, External):
            return _external(".".join([found.name, *reversed(attributes[1:])]), attributes[0])
        return None

    def qualified(self, node: ast.expr, position: int) -> str:
        """Give the qualified name of something imported or built in, "" for anything else."""
        found = self.meaning(node, position)
        return found.name if isinstance(found, External) else ""


def _external(module: str, name: str) -> External:
    return External(f"{_HOMES.get(module, module)}.{name}")
