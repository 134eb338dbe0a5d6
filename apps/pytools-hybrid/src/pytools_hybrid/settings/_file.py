"""The settings file: `pytools.toml`, or a table of `pyproject.toml`."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolimport.system import read_regular_file

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings._aliases import ALIASES, AliasError, resolved
from pytools_hybrid.settings._server import is_address

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic import JsonValue

CONFIG_VARIABLE = "PYTOOLS_CONFIG"

_FILE = "pytools.toml"
_PROJECT_FILE = "pyproject.toml"
_TABLE = "pytools"
_MOST_BYTES = 4 << 20
_COMPARED = 100
# The settings allowed in a file that was found rather than named. It may be a stranger's, so none
# of them exposes this machine or widens what an agent may do.
_ALLOWED_IN_FOUND = frozenset(
    {
        *("root", "layouts", "sync", "watch", "include", "exclude", "usage_log"),
        *("embedding_model", "embedding_dim", "embedding_requests_per_minute", "device"),
        *("bm25_weight", "vec_weight", "fusion", "rrf_k", "field_weights", "tuning"),
        *("threshold", "limit", "rerank_model", "rerank_certain", "rerank_gap"),
        *("port", "console", "log_level", "log_format"),
    }
)
# Relative to the file, wherever the command is started.
_PATHS = frozenset({"root", "database", "tuning"})


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The content of a settings file.

    Attributes:
        values: Settings by their names in `Settings`, paths made absolute.
    """

    path: Path
    values: Mapping[str, Any]


def find_settings_file(folder: Path) -> Path | None:
    """Return the settings file for a folder: the nearest one, there or in a folder above.

    In each folder `pytools.toml` comes first, then a `pyproject.toml` with a table
    `[tool.pytools]`. A `pyproject.toml` that cannot be read is skipped, and so is a file that
    belongs to another user: anybody can write to a folder such as `/tmp`.
    """
    for place in (folder, *folder.parents):
        if _is_own_file(file := place / _FILE):
            return file
        project = place / _PROJECT_FILE
        with suppress(SettingsError):
            if _is_own_file(project) and _table(_content(project)) is not None:
                return project
    return None


def is_allowed_in_found(name: str, value: object) -> bool:
    """Return whether a settings file that was found rather than named may contain a setting."""
    if name == "tools":
        return value != "call"
    if name == "database":
        return not is_address(str(value))
    return name in _ALLOWED_IN_FOUND


def _is_own_file(path: Path) -> bool:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    if not stat.S_ISREG(status.st_mode):
        return False
    return not hasattr(os, "getuid") or status.st_uid in {os.getuid(), 0}


def read_settings_file(path: Path, *, known: Collection[str]) -> SettingsFile:
    """Read a settings file.

    Args:
        path: A TOML file; in a `pyproject.toml`, only the table `[tool.pytools]` counts.
        known: The names of all settings. The file may have hyphens for underscores.

    Raises:
        SettingsError: It cannot be read, is not valid TOML, or has an unknown setting.
    """
    content: JsonValue = _content(path)
    if path.name == _PROJECT_FILE:
        content = _table(content) or {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: tool.{_TABLE}", "is not a table of settings")
    base = Path(os.path.abspath(path)).parent  # noqa: PTH100 - links in it may be meant
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known and name not in ALIASES:
            raise SettingsError(f"{path}: {key}", _unknown(name, known))
        if name in values:
            raise SettingsError(f"{path}: {key}", f"is set twice, also as {name}")
        values[name] = value
    try:
        values = resolved(values)
    except AliasError as error:
        raise SettingsError(f"{path}: {error.alias}", str(error)) from None
    values |= {name: _below(base, values[name]) for name in _PATHS & values.keys()}
    if isinstance(root := values.get("root"), str):
        # In a file, the character that separates paths in a variable is part of a name.
        values["root"] = [root]
    return SettingsFile(path, values)


def _content(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        text = read_regular_file(path, limit=_MOST_BYTES)
    except FileNotFoundError:
        raise SettingsError(str(path), "does not exist; give the path of a settings file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(str(path), f"cannot be read: {reason}") from error
    if path.name == _PROJECT_FILE and _TABLE.encode() not in text:
        return {}
    try:
        # Some editors write a byte-order mark.
        return tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SettingsError(str(path), f"is not valid TOML: {error}") from error


def _table(content: JsonValue) -> JsonValue:
    tool = content.get("tool") if isinstance(content, dict) else None
    return tool.get(_TABLE) if isinstance(tool, dict) else None


def _unknown(name: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(name[:_COMPARED], known, n=1)
    if nearest:
        return f"is not a setting; did you mean {nearest[0]}?"
    return "is not a setting; pytools-hybrid config lists them"


def _below(base: Path, value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_below(base, each) for each in value]
    # "none" is not a path, but a value of `tuning`.
    if not isinstance(value, str) or value.startswith("~") or value == "none" or is_address(value):
        return value
    return str(base / value)
