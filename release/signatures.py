"""What griffe does not compare of two versions: types, values, decorators, what others implement.

None of it has to break anybody, so that a person decides which kind of change it is.
"""

import ast
import re
from collections.abc import Iterator

import griffe

_Object = griffe.Object | griffe.Alias
# What of `@dataclass(…)` its users see, besides the parameters.
_SEEN = re.compile(r"\b(?:frozen|eq|order|unsafe_hash)=\w+")
_BINDING = {"async", "classmethod", "staticmethod"}


def changes(old: griffe.Module, new: griffe.Module) -> Iterator[str]:
    """Give what has another type, value or obligation than before, a line for each."""
    names = map(str, old.exports or ())
    yield from _of_members(old, new, [it for it in names if not it.startswith("__")])
    for name, module in old.modules.items():
        later = new.modules.get(name)
        if module.is_public and not module.is_alias and later is not None:
            yield from changes(module, later)


def _of_members(old: _Object, new: _Object, names: list[str]) -> Iterator[str]:
    for name in names:
        before, after = _found(old, name), _found(new, name)
        # What is gone, or of another kind, griffe tells.
        if before is None or after is None or type(before) is not type(after):
            continue
        for what in _compared(before, after):
            yield what if what.startswith("- ") else f"- `{old.path}.{name}`: *{what}*"


def _found(parent: _Object, name: str) -> griffe.Object | None:
    try:
        found = parent.all_members.get(name)
        return found.final_target if isinstance(found, griffe.Alias) else found
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def _compared(old: griffe.Object, new: griffe.Object) -> Iterator[str]:
    if isinstance(old, griffe.Function) and isinstance(new, griffe.Function):
        yield from _of_function(old, new)
    elif isinstance(old, griffe.Attribute) and isinstance(new, griffe.Attribute):
        yield from _of_attribute(old, new)
    elif isinstance(old, griffe.Class) and isinstance(new, griffe.Class):
        yield from _of_class(old, new)


def _of_function(old: griffe.Function, new: griffe.Function) -> Iterator[str]:
    if old.labels & _BINDING != new.labels & _BINDING:
        yield "Is called in another way (async, classmethod, staticmethod)"
    if [*map(_signature, old.overloads or ())] != [*map(_signature, new.overloads or ())]:
        yield "Overloads have changed"
    for parameter in old.parameters:
        if parameter.name in new.parameters:
            now = new.parameters[parameter.name].annotation
            if not _types(parameter.annotation) <= _types(now) and now is not None:
                yield f"Parameter {parameter.name} takes {now}, and took {parameter.annotation}"
    if old.returns is not None and not _types(new.returns) <= _types(old.returns):
        yield f"Gives {new.returns}, and gave {old.returns}"


def _of_attribute(old: griffe.Attribute, new: griffe.Attribute) -> Iterator[str]:
    if old.annotation is not None and _types(old.annotation) != _types(new.annotation):
        yield f"Is of type {new.annotation}, and was of {old.annotation}"
    # What a method assigns, or a call gives, is a matter of its own.
    fixed = old.labels & {"module-attribute", "class-attribute"} and "(" not in str(old.value)
    if fixed and str(old.value) != str(new.value):
        yield f"Is {new.value}, and was {old.value}"


def _of_class(old: griffe.Class, new: griffe.Class) -> Iterator[str]:
    if _decorated(old) != _decorated(new):
        yield "Decorators have changed"
    names, later = _public(old), _public(new)
    if _has_base(old, "NamedTuple") and names != later:
        yield f"Has the fields {', '.join(later)}, and had {', '.join(names)}"
    if _has_base(old, "Protocol"):
        yield from (f"Asks for {name}, too" for name in later if name not in names)
        for name in names:
            before, after = _found(old, name), _found(new, name)
            if isinstance(before, griffe.Function) and isinstance(after, griffe.Function):
                known = {it.name for it in before.parameters}
                yield from (
                    f"Asks for the parameter {it.name} of {name}, too"
                    for it in after.parameters
                    if it.name not in known
                )
    # The parameters that griffe derives for a dataclass are its attributes once more.
    own = [] if "dataclass" in old.labels else ["__init__"]
    yield from _of_members(old, new, [*own, *names])


def _public(owner: griffe.Class) -> list[str]:
    return [name for name in owner.all_members if not name.startswith("_")]


def _has_base(owner: griffe.Class, name: str) -> bool:
    return any(re.match(rf"(?:typing\.)?{name}\b", str(base)) for base in owner.bases)


def _decorated(owner: griffe.Class) -> set[str]:
    return {found for it in owner.decorators for found in _SEEN.findall(str(it.value))}


def _signature(overload: griffe.Function) -> str:
    parameters = [f"{it.name}: {it.annotation} = {it.default}" for it in overload.parameters]
    return f"{parameters} {overload.returns}"


def _types(annotation: object) -> set[str]:
    """Give the members of a union, however it is written; quotation marks mean nothing."""
    try:
        return set(_members(ast.parse(re.sub("[\"']", "", str(annotation)), mode="eval").body))
    except SyntaxError:
        return {str(annotation)}


def _members(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.BinOp):
        yield from _members(node.left)
        yield from _members(node.right)
    else:
        yield ast.unparse(node)
