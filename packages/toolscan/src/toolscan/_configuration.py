"""The configuration of a pydantic model, as far as its source shows it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from toolscan._constants import constant
from toolscan._metadata import read_extra
from toolscan._models import linearize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolscan._namespace import ClassFound, Scope


def configuration(found: ClassFound, scope: Scope) -> dict[str, object]:
    """Return the constant part of a model's configuration, including that of its base classes."""
    config: dict[str, object] = {}
    for own in reversed(linearize(found, scope)):
        inside = scope.at(own)
        for name, value in [*_config_body(own.node), *_config_keywords(own.node)]:
            # Functions stay expressions, because only their names show what they do.
            config[name] = _setting(name, value, inside)
    return config


def _setting(name: str, value: ast.expr, scope: Scope) -> object:
    if name == "json_schema_extra":
        return read_extra(value, scope)
    return scope.qualified(value) or constant(value, scope)


def _config_keywords(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for keyword in node.keywords:
        if keyword.arg:
            yield keyword.arg, keyword.value


def _config_body(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        if isinstance(statement, ast.Expr):
            continue  # a docstring of the class or of a field, the most common statement
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="model_config")], value=value)
                | ast.AnnAssign(target=ast.Name(id="model_config"), value=value)
            ):
                yield from _config_items(value)
            case ast.ClassDef(name="Config", body=body):
                for inner in body:
                    match inner:
                        case ast.Assign(targets=[ast.Name(id=name)], value=value):
                            yield name, value
                        case ast.FunctionDef(name=name):
                            yield name, ast.Constant(...)  # a value that is not known
                        case _:
                            pass
            case _:
                pass


def _config_items(value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    match value:
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                if keyword.arg:
                    yield keyword.arg, keyword.value
        case ast.Dict(keys=keys, values=values):
            for key, item in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, item
        case None:
            pass
        case _:  # combined from others, which may change the setting for extra fields
            yield "extra", ast.Constant(...)
