"""Creating and recognizing our entry in a client's configuration."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NAME = "pytools"

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
    from toolimport.runtime import imported_tool

    return tuple(
        f"mcptools:{module.parent.name}:{module.stem}"
        for root in roots
        for module in sorted(root.glob("mcptools/*/*.py"))
        if (tool := imported_tool(module)) is not None
        and tool.annotations.get("destructiveHint") is True
        and tool.annotations.get("readOnlyHint") is not True
    )


def freeact_entry() -> dict[str, Any]:
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


def merged(entry: dict[str, Any], existing: Mapping[str, Any]) -> dict[str, Any]:
    """Return our entry with the user's additions to an existing one."""
    start, before = entry["args"].index("serve") + 1, _texts(existing.get("args"))
    theirs = before[before.index("serve") + 1 :] if "serve" in before else []
    ours = [*_options(entry["args"][start:])]
    known = [*pairwise(theirs)]
    added = [it for pair in ours if pair not in known for it in pair]
    made = {**existing, **entry, "args": [*entry["args"][:start], *added, *theirs]}
    env: dict[str, Any] = {**entry.get("env", {}), **(existing.get("env") or {})}
    if env:
        made["env"] = env
    return made


def is_ours(name: str, definition: object) -> bool:
    """Return whether an entry starts our server, in any spelling."""
    if not isinstance(definition, dict):
        return False
    entry = cast("dict[str, object]", definition)
    command, args = _base(entry.get("command")), _texts(entry.get("args"))
    if command == _COMMAND or (name == NAME and "url" in entry):
        return True
    pairs = list(pairwise(args))
    return any(
        (first == "-m" and second.partition(".")[0] == _MODULE)
        or (_base(first) == _COMMAND and second == "serve")
        for first, second in pairs
    )


def _options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(args[::2], args[1::2], strict=True)


def _base(program: object) -> str:
    # A file may have Windows paths on any system.
    return str(program).replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _texts(value: object) -> list[str]:
    return [str(it) for it in cast("list[object]", value)] if isinstance(value, list) else []
