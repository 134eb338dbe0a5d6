"""Common functions for reading a syntax tree."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, NamedTuple

from toolscan._issues import Reason, Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DESCRIPTION = 100_000
"""The maximum number of characters of a docstring; the rest is cut off."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
# In a signature, these need parentheses.
_IN_PARENTHESES = (ast.NamedExpr, ast.Yield, ast.YieldFrom)


class Statement(NamedTuple):
    """A statement at the top level of a module, and its context."""

    node: ast.stmt
    conditional: bool
    for_type_checkers: bool


_COMPOUND = (
    ast.If,
    ast.Try,
    ast.TryStar,
    ast.With,
    ast.AsyncWith,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Match,
)


def top_level(body: list[ast.stmt]) -> list[Statement]:
    """Return the statements that run when the module is imported, in the order of the source.

    Branches of `if`, `try`, `with`, loops and `match` are included; bodies of functions and classes
    are not. Not recursive, because a chain of a thousand `elif` is a thousand levels deep.
    """
    statements: list[Statement] = []
    pending = [Statement(node, False, False) for node in reversed(body)]
    while pending:
        statement = pending.pop()
        if isinstance(statement.node, _COMPOUND):
            blocks = _blocks(statement)
            pending.extend(inner for block in reversed(blocks) for inner in reversed(block))
        else:
            statements.append(statement)
    return statements


def _blocks(statement: Statement) -> list[list[Statement]]:
    node, _, typing_only = statement
    bodies: list[tuple[list[ast.stmt], bool]]
    match node:
        case ast.If():
            bodies = [(node.body, typing_only or _is_type_checking(node.test))]
            bodies.append((node.orelse, typing_only))
        case ast.For() | ast.AsyncFor() | ast.While():
            bodies = [(node.body, typing_only), (node.orelse, typing_only)]
        case ast.With() | ast.AsyncWith():
            bodies = [(node.body, typing_only)]
        case ast.Try() | ast.TryStar():
            handlers = [statement for handler in node.handlers for statement in handler.body]
            parts = (node.body, handlers, node.orelse, node.finalbody)
            bodies = [(part, typing_only) for part in parts]
        case _:
            cases = node.cases if isinstance(node, ast.Match) else []
            bodies = [(case.body, typing_only) for case in cases]
    return [[Statement(inner, True, flag) for inner in body] for body, flag in bodies]


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def docstring(body: list[ast.stmt]) -> str:
    """Return the cleaned docstring of a body; "" if it is missing, empty or blank."""
    if body and (text := string_statement(body[0])):
        text = text[:MAX_DESCRIPTION]
        # Most docstrings of fields are a single line, which has no indentation to remove.
        if (line := text.strip()).isprintable():
            return line
        # Cut before cleaning, which is slow for long texts, and after, because it expands tabs.
        return inspect.cleandoc(text).strip()[:MAX_DESCRIPTION].rstrip()
    return ""


def string_statement(node: ast.stmt) -> str | None:
    """Return the text of a statement that is only a string; otherwise, `None`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        text = node.value.value
        return text if isinstance(text, str) else None
    return None


class ModuleText:
    """The text of a module, to be cut at positions in its syntax tree."""

    __slots__ = ("_encoded", "lines")

    def __init__(self, text: str) -> None:
        # The parser counts lines like this; str.splitlines also splits at form feeds and others.
        self.lines = text.split("\n")
        self._encoded: dict[int, bytes] = {}

    def written(self, node: ast.expr) -> str:
        """Return an expression as written, but on one line."""
        if node.lineno != node.end_lineno:
            return one_line(node)
        text = self._cut(node.lineno, node.col_offset, node.end_col_offset)
        return f"({text})" if isinstance(node, _IN_PARENTHESES) else text

    def block(self, node: ast.stmt) -> str:
        """Return the text of a statement with its decorators.

        The first and last lines are cut at columns, because they may contain other statements.
        """
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        start = node.col_offset if first == node.lineno else 0
        last, end = node.end_lineno or node.lineno, node.end_col_offset
        if "#:" in self.lines[last - 1] and self._cut(last, end or 0, None).lstrip()[:2] == "#:":
            end = None  # this comment describes the last field of a class
        if first == last:
            return self._cut(first, start, end)
        between = self.lines[first : last - 1]
        ends = self._cut(first, start, None), self._cut(last, 0, end)
        return "\n".join([ends[0], *between, ends[1]])

    def _cut(self, number: int, start: int, end: int | None) -> str:
        line = self.lines[number - 1]
        # Offsets count UTF-8 bytes.
        if line.isascii():
            return line[start:end]
        if number not in self._encoded:
            self._encoded[number] = line.encode()
        return self._encoded[number][start:end].decode()


def one_line(node: ast.AST) -> str:
    """Return a node's source on one line, as `ast.unparse` formats it."""
    try:
        return " ".join(ast.unparse(node).split("\n"))
    except ValueError as error:  # hexadecimal numbers may have more digits than Python writes
        detail = "It contains a number with too many digits to be written out."
        raise Rejection(Reason.TOO_LARGE, detail) from error


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
