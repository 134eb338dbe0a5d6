"""Our entry in the configuration of MCP clients, whose files toolimport changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMMAND = "pytools-hybrid"
_MODULE = "pytools_hybrid"


def own_entry(
    roots: Sequence[Path], env: Mapping[str, str], confirm: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the entry that starts our server, for clients that cannot run code.

    Args:
        roots: The trees of tools.
        env: The server's environment variables.
        confirm: The ids of tools whose calls the user confirms.
    """
    command, *before = own_command()
    args = [*before, "serve", "--tools", "call"]
    for root in roots:
        args += ["--root", str(root)]
    for tool in confirm:
        args += ["--confirm", tool]
    return {"command": command, "args": args} | ({"env": dict(env)} if env else {})


def destructive_tools(roots: Sequence[Path]) -> tuple[str, ...]:
    """Return the ids of imported tools that their servers annotate as destructive.

    By the protocol, a tool without annotations may be destructive too, but confirming all of those
    would mean confirming nearly every call.
    """
    from toolimport.runtime import ImportedTool

    return tuple(
        f"mcptools:{module.parent.name}:{module.stem}"
        for root in roots
        for module in sorted(root.glob("mcptools/*/*.py"))
        if (tool := ImportedTool.read(module)) is not None
        and tool.annotations.get("destructiveHint") is True
        and tool.annotations.get("readOnlyHint") is not True
    )


def freeact_entry(_env: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry for freeact, which inserts the path of its tools."""
    command, *before = own_command()
    env = {"PYTOOLS_DIR": "${PYTOOLS_DIR}", "PYTOOLS_DB_PATH": "${PYTOOLS_DB_PATH}"}
    env |= {"PYTOOLS_SYNC": "true", "PYTOOLS_WATCH": "true"}
    return {"command": command, "args": [*before, "serve"], "env": env}


def own_command() -> tuple[str, ...]:
    """Return the command that starts this very program, whatever a client's PATH is."""
    beside = Path(sys.executable).with_name(_COMMAND)
    for program in (beside, beside.with_suffix(".exe")):
        if program.is_file():
            return (str(program),)
    return (sys.executable, "-m", _MODULE)
