"""The commands that install missing packages, and that start this program from MCP clients."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["destructive_tools", "freeact_entry", "install_command", "own_entry"]

_NAME = "pytools-hybrid"
_PLAIN = re.compile(r"[\w@%+=:,./\\-]+")


def install_command(
    *wanted: str, again: bool = False, upgrade: bool = False, into: Distribution | None = None
) -> str:
    """Return the command that installs something into the environment of this copy.

    Args:
        wanted: Requirements, such as `pytools-hybrid[openai]` or `apsw`.
        again: Whether to replace an installed version.
        upgrade: Whether to install newer versions.
        into: The installed copy; None for the one that runs.
    """
    try:
        copy = into or Distribution.from_name(_NAME)
    except PackageNotFoundError:
        # Only its source is on the path.
        copy = None
    origin: dict[str, Any] = json.loads((copy and copy.read_text("direct_url.json")) or "{}")
    url = urlsplit(str(origin.get("url", "")))
    by_uv = copy is not None and (copy.read_text("INSTALLER") or "").strip() == "uv"
    program = ["uv", "pip"] if by_uv else [sys.executable, "-m", "pip"]
    parts = [*program, "install", *["--python", sys.executable] * by_uv]
    parts += ["--reinstall" if by_uv else "--force-reinstall"] * again + ["--upgrade"] * upgrade
    for requirement in wanted:
        if url.scheme == "file" and requirement.startswith(_NAME):
            # A clone or a wheel: no index needs to have it.
            parts += ["-e"] * bool(origin.get("dir_info", {}).get("editable"))
            parts.append(url2pathname(url.path) + requirement.removeprefix(_NAME))
        else:
            parts.append(requirement)
    return " ".join(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in parts)


def own_entry(
    roots: Sequence[Path], env: Mapping[str, str], confirm: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the entry that starts our server, for clients that cannot run code.

    Args:
        roots: The trees of tools.
        env: The server's environment variables.
        confirm: The ids of tools whose calls the user confirms.
    """
    command, *before = _own_command()
    args = [*before, "serve", "--profile", "call"]
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
    command, *before = _own_command()
    env = {"PYTOOLS_DIR": "${PYTOOLS_DIR}", "PYTOOLS_DB_PATH": "${PYTOOLS_DB_PATH}"}
    env |= {"PYTOOLS_SYNC": "true", "PYTOOLS_WATCH": "true"}
    return {"command": command, "args": [*before, "serve"], "env": env}


def _own_command() -> tuple[str, ...]:
    """Return the command that starts this very program, whatever a client's PATH is."""
    beside = Path(sys.executable).with_name(_NAME)
    for program in (beside, beside.with_suffix(".exe")):
        if program.is_file():
            return (str(program),)
    return (sys.executable, "-m", "pytools_hybrid")
