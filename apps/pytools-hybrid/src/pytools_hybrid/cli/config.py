"""`pytools-hybrid config`: every setting."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytools_hybrid.settings import Settings

_DEFAULT = "default"


@app.command(
    "config",
    epilog="""Examples:

\b
  $ pytools-hybrid config
  $ pytools-hybrid config --output toml > new.toml

Options take precedence over variables, variables over the file, and the file over the defaults.""",
)
def config(
    *,
    output: Annotated[
        Literal["table", "json", "toml"], typer.Option(help="Output format; toml is a file.")
    ] = "table",
) -> None:
    """Secrets are never shown."""
    from pytools_hybrid.settings import variable

    settings = app.settings_from()
    values = settings.model_dump(mode="json") | _resolved(settings)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "variable": variable(name),
            "value": values[name],
            "origin": settings.origins.get(name, _DEFAULT),
        }
        for name in type(settings).model_fields
    ]
    if output == "toml":
        typer.echo(_as_toml(settings, rows), nl=False)
        return
    shown = [
        row | {"value": _shown(row["value"]), "tone": "dim" * (row["origin"] == _DEFAULT)}
        for row in rows
    ]
    columns = [("setting", "{name}", "{tone}"), ("value", "{value}", "{tone}")]
    columns += [("from", "{origin}", "{tone}"), ("variable", "{variable}", "dim")]
    line = "{name} = {value}  ({origin}; {variable})"
    terminal.print_rows(shown, output, line=line, columns=columns, value=rows)


def _resolved(settings: Settings) -> dict[str, Any]:
    try:
        roots, _ = settings.resolved_root()
        database = settings.resolved_server(roots) or settings.resolved_database(roots)
    except SettingsError:
        return {}
    root = {} if settings.root else {"root": [str(root) for root in roots]}
    return root | {"database": str(database)}


def _shown(value: JsonValue) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_toml_value(value: JsonValue) -> str:
    if isinstance(value, dict):
        pairs = [f"{key} = {_as_toml_value(each)}" for key, each in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return json.dumps(value, ensure_ascii=False)


def _as_toml(settings: Settings, rows: list[dict[str, Any]]) -> str:
    from pytools_hybrid.settings import is_allowed_in_found

    lines = ["# Settings of pytools-hybrid. Commented lines show defaults."]
    for row in rows:
        name, value, is_default = row["name"], row["value"], row["origin"] == _DEFAULT
        if name == "token":
            if value is not None:
                say("the token is not shown: keep it in PYTOOLS_TOKEN")
            continue
        is_allowed = name == "database" or is_allowed_in_found(name, value)
        if not is_allowed and not is_default:
            say(f"{name} is only allowed in a file named by --config or PYTOOLS_CONFIG")
        if name == "database" and settings.server is not None:
            say("database is only allowed in a file named by --config or PYTOOLS_CONFIG")
            if settings.server.url != settings.server.shown:
                say("its password is not shown: keep it in PGPASSWORD or in ~/.pgpass")
        elif name in {"root", "database"} and not is_default:
            # Paths in a settings file are relative to that file, which may be written anywhere.
            paths = [os.path.abspath(it) for it in ([value] if isinstance(value, str) else value)]  # noqa: PTH100
            value = paths[0] if name == "database" else paths
        # JSON and TOML write numbers, booleans, strings and lists of them the same way.
        line = f"{name} = {'' if value is None else _as_toml_value(value)}"
        lines.append(f"# {line}".rstrip() if is_default or not is_allowed else line)
    return "\n".join([*lines, ""])
