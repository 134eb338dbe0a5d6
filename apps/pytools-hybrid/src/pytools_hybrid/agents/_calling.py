"""Calling tools that a search found, in this process."""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints
from weakref import WeakKeyDictionary

import toolscan
from pydantic_core import to_json

from pytools_hybrid.agents._arguments import Arguments
from pytools_hybrid.agents._definitions import ToolDefinition
from pytools_hybrid.agents._functions import OwnFunction
from pytools_hybrid.agents._tool_function import NAME_LENGTH, NOT_IN_NAMES, ToolFunction
from pytools_hybrid.errors import ToolLoadError
from pytools_hybrid.search import module_name

if TYPE_CHECKING:
    from types import ModuleType

    from pytools_hybrid.search import FoundTool

# The hash of each module's file when it was loaded: schema and code must match.
_hashes: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()


def load_tool(found: FoundTool) -> ToolFunction:
    """Import the module of a tool, which runs its code, so that the tool can be called.

    Scanning, searching and describing only read files; this runs them, so only use it for trees
    whose code you trust. The tree's folder is appended to `sys.path`, so that tools can import each
    other. As usual in Python, a module is imported once and then kept.

    Raises:
        ToolLoadError: The module cannot be read or imported, its file has changed since its import,
            or another module has its name.
    """
    tool_id = str(found.entry.id)
    relative = found.path.relative_to(found.root)
    try:
        record = toolscan.read_tool(relative, found.root, name=found.name, layouts=found.layouts)
    except (toolscan.ToolScanError, OSError) as error:
        raise ToolLoadError(tool_id, f"its file cannot be read: {error}") from error
    module = _imported(tool_id, found.root, relative)
    function = getattr(module, record.entrypoint, None)
    is_as_imported = _hashes.setdefault(module, record.file_hash) == record.file_hash
    if not is_as_imported or function is None:
        raise ToolLoadError(
            tool_id, f"{found.path} has changed since it was imported: restart the program"
        )
    name = NOT_IN_NAMES.sub("_", f"{found.entry.id.category}__{found.name}")[:NAME_LENGTH]
    try:
        if not inspect.isroutine(function):
            return _made_by_decorator(function, tool_id, name, record.description)
        hints = get_type_hints(function, include_extras=True)
        arguments = Arguments(
            inspect.signature(function), hints, is_model=bool(record.params_class)
        )
    except Exception as error:
        reason = f"its parameters cannot be read: {type(error).__name__}: {error}"
        raise ToolLoadError(tool_id, reason) from error
    return ToolFunction(
        id=tool_id,
        name=name,
        description=record.description,
        input_schema=toolscan.input_schema(record),
        _bind=arguments.bind,
        _function=function,
    )


def _made_by_decorator(made: object, tool_id: str, name: str, description: str) -> ToolFunction:
    """Return what a decorator has turned a function into: a framework's tool, or any object."""
    definition = ToolDefinition(name=name, description=description)
    return replace(OwnFunction(given=made, definition=definition).tool(), id=tool_id)


def result_text(result: object) -> str:
    """Format a tool's result for a language model: text unchanged, everything else as JSON."""
    return result if isinstance(result, str) else to_json(result, fallback=str).decode()


def _imported(tool_id: str, root: Path, relative: Path) -> ModuleType:
    folder = str(root.resolve())
    if folder not in sys.path:
        sys.path.append(folder)
    # The module may have just been written.
    importlib.invalidate_caches()
    name = module_name(relative)
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        reason = _taken(root, relative) or f"{type(error).__name__}: {error}"
        raise ToolLoadError(tool_id, f"{name} cannot be imported: {reason}") from error
    if Path(module.__file__ or "").resolve() != (root / relative).resolve():
        raise ToolLoadError(tool_id, f"{name} was imported from another folder: {module.__file__}")
    return module


def _taken(root: Path, relative: Path) -> str:
    """Return the package from another folder that hides a module, if any."""
    for folder in reversed(relative.parents[:-1]):
        name = ".".join(folder.parts)
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and Path(file).resolve().parent != (root / folder).resolve():
            return (
                f"the package {name} was imported from {file}, and a program can import only one "
                "package of that name; call the tools of this folder in another process"
            )
    return ""
