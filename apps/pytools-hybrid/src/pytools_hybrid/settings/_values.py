"""How the values of settings are read and checked, whichever source they are from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytools_hybrid.settings._layouts import DEFAULT_LAYOUT_NAMES, parsed_layouts
from pytools_hybrid.settings._models import check_model_name
from pytools_hybrid.settings._roots import Roots

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic import FieldSerializationInfo, JsonValue, SecretStr, ValidationInfo
    from toolindex_postgres import Address

    _GivenPaths = os.PathLike[str] | tuple[object, ...]

_COLONS = 2
_MOST_WEIGHT = 1000
_FIELDS = ("name", "description", "parameters", "category", "tags")


def split_names(value: object) -> object:
    """Split names at commas."""
    if not isinstance(value, str):
        return value
    names = tuple(name for part in value.split(",") if (name := part.strip()))
    if not names:
        raise ValueError("it is empty; leave it out, or give names separated by commas")
    return names


def split_paths(value: JsonValue | Roots | _GivenPaths) -> object:
    """Split paths at the separator of PATH."""
    if value is None:
        return ()
    if isinstance(value, Roots):
        return value.paths
    if isinstance(value, os.PathLike):
        return (value,)
    if not isinstance(value, str):
        if not isinstance(value, list | tuple):
            raise ValueError("it is not a path; give a folder, or a list of folders")
        return value
    # A folder may have the separator in its name.
    if os.path.isdir(os.path.expanduser(value)):  # noqa: PTH111, PTH112 - any string may come
        return (value,)
    paths = tuple(part for part in value.split(os.pathsep) if part)
    if not paths:
        raise ValueError(f"it is empty; give paths with {os.pathsep!r} between them")
    return paths


def split_weights(value: object) -> object:
    """Split weights such as `name=5,description=1`."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",")]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("give weights as name=5,description=1")
    return {name.strip(): weight.strip() for name, _, weight in pairs}


def check_weights(value: dict[str, float]) -> dict[str, float]:
    """Check that weights are of fields, within their range, and not all zero."""
    if unknown := sorted(value.keys() - set(_FIELDS)):
        raise ValueError(f"there is no {unknown[0]!r}; there are {', '.join(_FIELDS)}")
    if not all(0 <= weight <= _MOST_WEIGHT for weight in value.values()):
        raise ValueError(f"a weight is a number from 0 to {_MOST_WEIGHT}")
    if len(value) == len(_FIELDS) and not any(value.values()):
        raise ValueError("all fields have weight 0, so no word would count; give one a weight")
    return value


def check_patterns(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Return patterns that can match ids; one that can only match names or categories is extended.

    For example, `delete_*` becomes `*:*:delete_*`, and `github:delete_*` becomes
    `*:github:delete_*`.
    """
    from toolindex import ArgumentError, ToolFilter

    layouts = parsed_layouts(info.data.get("layouts", DEFAULT_LAYOUT_NAMES))
    sources = {layout.source for layout in layouts}
    patterns = tuple(_extended(pattern, sources) for pattern in value)
    try:
        ToolFilter(include=patterns)
    except ArgumentError as error:
        raise ValueError(str(error)) from error
    return patterns


def _extended(pattern: str, sources: Collection[str]) -> str:
    if not pattern:
        raise ValueError("a pattern is empty; is a shell variable not set?")
    colons = pattern.count(":")
    begins = any(_may_begin(pattern, source) for source in sources)
    if colons == _COLONS or (colons < _COLONS and "*" in pattern and begins):
        return pattern
    is_literal = not set(pattern) & {"*", "?"}
    # A pattern that matches nothing hides nothing: better not to start than to show too much.
    if colons > _COLONS or (colons == 1 and begins) or (not colons and is_literal):
        spellings = {
            0: f", so write '*:{pattern}:*' for a category, '*:*:{pattern}' for a name",
            1: f", so write '{pattern}:*'",
        }
        raise ValueError(
            f"{pattern!r} matches no tool: ids are source:category:name{spellings.get(colons, '')}"
        )
    return "*:" * (_COLONS - colons) + pattern


def _may_begin(pattern: str, source: str) -> bool:
    """Return whether the part of a pattern before a `*` fits the beginning of a source's ids.

    Case is ignored: a source in the wrong case is a typing error, not the name of a tool.
    """
    head = pattern.partition("*")[0].lower()
    return all(it in {char, "?"} for it, char in zip(head, f"{source}:", strict=False))


def check_ids(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return ids once each."""
    for name in value:
        if name.count(":") != _COLONS or set(name) & {"*", "?"}:
            raise ValueError(f"{name!r} is not an id, such as mcptools:github:create_issue")
    return tuple(dict.fromkeys(value))


def check_layouts(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check that there are layouts, each with a known name or a valid pattern."""
    if not value:
        raise ValueError("it is empty; leave it out, or name layouts")
    parsed_layouts(value)
    return value


def check_token(value: SecretStr | None) -> SecretStr | None:
    """Check that a header can carry a token."""
    if value is None:
        return None
    token = value.get_secret_value()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("use only ASCII letters, digits and punctuation, without spaces")
    return value


def check_language_model(value: str | None) -> str | None:
    """Return the current name of a language model."""
    return None if value is None else check_model_name(value)


def check_database(value: Path | Address | None) -> Path | Address | None:
    """Return where the index is, with the home folder filled in."""
    if not isinstance(value, Path):
        return value
    path = _at_home(value)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError("SQLite can only open UTF-8 paths") from None
    return path


def shown_database(value: object, info: FieldSerializationInfo) -> object:
    """Return where the index is, without the password of a server."""
    is_path = value is None or (isinstance(value, Path) and info.mode != "json")
    return value if is_path else str(value)


def expand_home(value: Path | None) -> Path | None:
    """Return a path with the home folder filled in."""
    return None if value is None else _at_home(value)


def expand_homes(value: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return paths with the home folder filled in."""
    return tuple(_at_home(path) for path in value)


def in_capitals(value: object) -> object:
    """Return text in upper case."""
    return value.upper() if isinstance(value, str) else value


def _at_home(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("a path cannot contain a null byte")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} names an unknown home folder") from error
