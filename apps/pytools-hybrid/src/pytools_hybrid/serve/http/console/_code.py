"""The code that an agent would write to call a tool, generated from its entry in the index."""

from __future__ import annotations

import re
from keyword import iskeyword
from typing import TYPE_CHECKING

from pytools_hybrid.search import module_name

if TYPE_CHECKING:
    from pytools_hybrid.search import FoundTool

_DEFINITION = re.compile(
    r"(?P<waits>async )?def (?P<name>\w+)\((?:(?P<only>\w+): (?P<type>\w+)\))?"
)


def calling_code(found: FoundTool) -> str:
    """Return an import and a call with the required parameters.

    The result is empty if the parameters are unknown, or the file's path is not a module name.
    """
    defined = _DEFINITION.match(found.signature)
    module = module_name(found.path.relative_to(found.root))
    parts = module.split(".")
    if defined is None or not all(it.isidentifier() and not iskeyword(it) for it in parts):
        return ""
    parameters = found.entry.parameters
    arguments = ", ".join(f"{it.name}=…" for it in parameters if it.required)
    function, kind = defined["name"], defined["type"]
    names, call = [function], arguments
    if kind is not None and defined["only"] not in {it.name for it in parameters}:
        names, call = [kind, function], f"{kind}({arguments})"
    waits = "await " if defined["waits"] else ""
    return f"from {module} import {', '.join(names)}\n\n{waits}{function}({call})"
