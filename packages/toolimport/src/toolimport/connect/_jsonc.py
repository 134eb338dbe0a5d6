"""Reading configuration files: JSON with comments and trailing commas, TOML and YAML."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from toolimport.errors import ServersFileError
from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_TOKENS = re.compile(f"({_STRING})|({_COMMENT})", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[\]}}])", re.DOTALL)


def read_file(file: Path) -> JsonValue:
    """Read a configuration file in the format of its suffix; errors have the position."""
    try:
        text = read_regular_file(file).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ServersFileError(
            file, "does not exist; give the file in which an MCP client configures its servers"
        ) from error
    except OSError as error:
        raise ServersFileError(file, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ServersFileError(
            file, f"is not UTF-8 text: {error.reason}; save it as UTF-8"
        ) from error
    match file.suffix.lower():
        case ".toml":
            return _parse_toml(text, file)
        case ".yaml" | ".yml":
            return _parse_yaml(text, file)
        case _:
            return parse_json(text, file)


def _parse_toml(text: str, file: Path) -> JsonValue:
    import tomllib

    try:
        return _plain_values(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise ServersFileError(file, f"is not valid TOML: {error}") from None


def _parse_yaml(text: str, file: Path) -> JsonValue:
    try:
        import yaml

        from toolimport.connect._yaml import load_yaml
    except ImportError:
        raise ServersFileError(file, "is YAML; install PyYAML to read it") from None
    try:
        return _plain_values(load_yaml(text))
    except yaml.MarkedYAMLError as error:
        # Without the cause, which quotes the text.
        mark = error.problem_mark
        raise ServersFileError(
            file,
            f"is not valid YAML here: {error.problem}",
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ServersFileError(file, "is not valid YAML") from None


def _plain_values(value: object) -> JsonValue:
    """Return a value with its dates as text, as in JSON."""
    plain: JsonValue = json.loads(json.dumps(value, default=str))
    return plain


def parse_json(text: str, file: Path) -> JsonValue:
    """Parse JSON that may have comments and trailing commas.

    Raises:
        ServersFileError: It is invalid; the error has the position.
    """
    try:
        content: JsonValue = json.loads(
            _plain(text), parse_constant=_refuse, object_pairs_hook=_distinct
        )
    except json.JSONDecodeError as error:
        # Without the cause, whose `doc` is the whole text, including secrets.
        raise ServersFileError(
            file, f"is not valid JSON here: {error.msg}", line=error.lineno, column=error.colno
        ) from None
    except (ValueError, RecursionError) as error:
        raise ServersFileError(file, f"is not valid JSON: {error}") from None
    return content


def _plain(text: str) -> str:
    """Replace what is not JSON with spaces, so that positions stay the same."""
    without_comments = _TOKENS.sub(lambda found: found[1] or _blank(found[2]), text)
    return _TRAILING.sub(lambda found: found[1] or " ", without_comments)


def _blank(comment: str) -> str:
    return re.sub(r"[^\n]", " ", comment)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse duplicate keys with different values, one of which would be lost silently."""
    made: dict[str, object] = {}
    for name, value in pairs:
        if made.setdefault(name, value) != value:
            raise ValueError(f"it has {name!r} twice in one object; rename one")
    return made


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not a JSON number")
