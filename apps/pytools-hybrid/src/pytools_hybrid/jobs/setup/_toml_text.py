"""Adding our entry to freeact's `config.toml`, and removing it, as text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGIN = "# Added by pytools-hybrid setup"
_END = "# End of what pytools-hybrid setup added"
_BLOCK = re.compile(rf"\n{_BEGIN}\n.*?{_END}\n", re.DOTALL)


def toml_entry(name: str, entry: Mapping[str, Any]) -> str:
    """Return an entry as TOML tables."""
    table = f"agent.mcp_servers.{name}"
    lines = [f"[{table}]", f"command = {_quoted(entry['command'])}"]
    lines.append(f"args = [{', '.join(map(_quoted, entry['args']))}]")
    lines += ["", f"[{table}.env]"]
    lines += [f"{key} = {_quoted(value)}" for key, value in entry["env"].items()]
    return "\n".join(lines) + "\n"


def has_block(text: str) -> bool:
    """Return whether setup has added its entry."""
    return _BLOCK.search(text) is not None


def with_block(text: str, block: str) -> str:
    """Add an entry at the end, or replace the one that setup added."""
    before = without_block(text)
    newline = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{newline}\n{_BEGIN}\n{block}{_END}\n"


def without_block(text: str) -> str:
    """Remove the entry that setup added."""
    return _BLOCK.sub("", text)


def _quoted(text: str) -> str:
    # JSON strings are valid in TOML.
    return json.dumps(text, ensure_ascii=False)
