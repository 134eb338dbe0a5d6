"""The file that settings may be written into: `pytools.toml`, or a table of `pyproject.toml`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["CONFIG_VARIABLE", "SettingsFile", "find_settings_file", "read_settings_file"]

CONFIG_VARIABLE = "PYTOOLS_CONFIG"

_FILE = "pytools.toml"
_PROJECT_FILE = "pyproject.toml"
_TABLE = "pytools"
# What they name lies beside the file, wherever the command is started.
_PATHS = frozenset({"root", "db_path"})


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a file says.

    Attributes:
        path: The file.
        values: Settings by their names in `Settings`, paths made absolute.
    """

    path: Path
    values: Mapping[str, Any]


def find_settings_file(folder: Path) -> Path | None:
    """Give the settings file that counts in a folder: the nearest, of it or a folder above it.

    In each folder `pytools.toml` comes first, then a `pyproject.toml` with a table
    `[tool.pytools]`. What cannot be read while looking is passed over.
    """
    for place in (folder, *folder.parents):
        try:
            if (file := place / _FILE).is_file():
                return file
            if f"[tool.{_TABLE}" in (project := place / _PROJECT_FILE).read_text("utf-8"):
                return project
        except (OSError, UnicodeDecodeError):
            continue
    return None


def read_settings_file(path: Path, *, known: Collection[str]) -> SettingsFile:
    """Read a settings file.

    Args:
        path: A TOML file; of one called `pyproject.toml`, the table `[tool.pytools]` counts.
        known: The names that settings have. Hyphens in the file stand for underscores.

    Raises:
        SettingsError: It cannot be read, is no TOML, or has a setting that there is not.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), f"is no TOML: {error}") from error
    if path.name == _PROJECT_FILE:
        content = content.get("tool", {}).get(_TABLE, {})
    base = Path(os.path.abspath(path)).parent  # noqa: PTH100 - links in it may be meant
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            raise SettingsError(f"{path}: {key}", _unknown(name, known))
        values[name] = _below(base, value) if name in _PATHS else value
    return SettingsFile(path, values)


def _unknown(name: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=1)
    return (
        f"is no setting; did you mean {nearest[0]}?"
        if nearest
        else ("is no setting; pytools-hybrid config lists them")
    )


def _below(base: Path, value: Any) -> Any:  # noqa: ANN401 - what a file says, still to be checked
    if isinstance(value, list):
        return [_below(base, each) for each in value]
    if not isinstance(value, str) or value.startswith("~"):
        return value
    return str(base / value)
