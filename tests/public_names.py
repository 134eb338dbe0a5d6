"""The public names of a package: what its `__init__` exports, and then its public submodules.

`python -m tests.public_names` counts them.
"""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from release.projects import read_projects

ROOT = Path(__file__).parents[1]


def public_names(package: str) -> list[str]:
    """Return each public name once; of submodules as `submodule.name`."""
    root = import_module(package)
    names = {name: getattr(root, name) for name in _exported(root)}
    for module in _public_modules(root):
        prefix = module.__name__.removeprefix(f"{package}.")
        for name in _exported(module):
            value = getattr(module, name)
            if names.get(name) is not value:
                names[f"{prefix}.{name}"] = value
    return sorted(names)


def _public_modules(package: ModuleType) -> list[ModuleType]:
    found: list[ModuleType] = []
    if package.__name__ == "pytools_hybrid":
        # docs/stability.md names those of its modules that are promised.
        return found
    for each in iter_modules(package.__path__, f"{package.__name__}."):
        if not each.name.rpartition(".")[2].startswith("_"):
            found.append(import_module(each.name))
            found += _public_modules(found[-1]) if each.ispkg else []
    return found


def _exported(module: ModuleType) -> list[str]:
    """Return a module's `__all__`, or what it re-exports (`X as X`) and defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    body = ast.parse(inspect.getsource(module)).body
    names: list[str] = []
    for node in body:
        match node:
            case ast.ImportFrom():
                names += [it.name for it in node.names if it.asname == it.name]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
            case _:
                pass
    return [name for name in names if not name.startswith("_")]


def counts() -> dict[str, int]:
    """Return how many names each package promises."""
    return {
        name: len(public_names(project.module))
        for name, project in read_projects(ROOT).items()
        if project.folder.parent.name == "packages"
    }


if __name__ == "__main__":
    for name, count in (found := counts()).items():
        print(f"{count:4} {name}")
    print(f"{sum(found.values()):4} in all")
