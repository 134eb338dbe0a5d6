"""The names that a statement binds, and those whose objects it changes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def bound_values(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a statement binds, with their values where the statement has them."""
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
