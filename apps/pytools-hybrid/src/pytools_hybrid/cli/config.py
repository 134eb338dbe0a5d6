"""`pytools-hybrid config`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pytools_hybrid.cli._run import settings_from
from pytools_hybrid.cli.app import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import is_terminal, print_json, print_rich, printable, say

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytools_hybrid.settings import Settings

_DEFAULT = "default"


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid config
  $ pytools-hybrid config --output toml > new.toml

Flags take precedence over variables, variables over the file, and the file over the defaults."""
)
def config(
    *,
    output: Annotated[
        Literal["table", "json", "toml"],
        typer.Option(help="For people, for programs, or as a settings file."),
    ] = "table",
) -> None:
    """Show every setting, its value, and where it comes from."""
    settings = settings_from()
    rows = [_row(settings, name) for name in type(settings).model_fields]
    if output == "json":
        print_json(
            [
                {"name": name, "variable": variable, "value": value, "origin": origin}
                for name, variable, value, origin in rows
            ]
        )
    elif output == "toml":
        typer.echo(_as_toml(settings, rows), nl=False)
    elif is_terminal():
        _print_table(rows)
    else:
        for name, variable, value, origin in rows:
            typer.echo(printable(f"{name} = {_shown(value)}  ({origin}; {variable})"))


def _row(settings: Settings, name: str) -> tuple[str, str, Any, str]:
    from pytools_hybrid.settings import variable

    value = settings.model_dump(mode="json")[name]
    if (name == "root" and not value) or name == "database":
        value = _resolved(settings).get(name, value)
    return name, variable(name), value, settings.origins.get(name, _DEFAULT)


def _resolved(settings: Settings) -> dict[str, Any]:
    try:
        roots, _ = settings.resolved_root()
        database = settings.resolved_server(roots) or settings.resolved_database(roots)
    except SettingsError:
        return {}
    return {"root": [str(root) for root in roots], "database": str(database)}


def _shown(value: JsonValue) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_table(rows: list[tuple[str, str, Any, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("setting", "value", "from", "variable"):
        table.add_column(heading, overflow="fold")
    for name, variable, value, origin in rows:
        is_set = origin != _DEFAULT
        table.add_row(
            Text(name, style="bold" if is_set else ""),
            Text(printable(_shown(value)), style="cyan" if is_set else ""),
            Text(printable(origin), style="" if is_set else "dim"),
            Text(variable, style="dim"),
        )
    print_rich([table])


def _as_toml_value(value: JsonValue) -> str:
    if isinstance(value, dict):
        pairs = [f"{key} = {_as_toml_value(each)}" for key, each in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return json.dumps(value, ensure_ascii=False)


def _as_toml(settings: Settings, rows: list[tuple[str, str, Any, str]]) -> str:
    from pytools_hybrid.settings import is_allowed_in_found

    lines = ["# Settings of pytools-hybrid; lines that begin with # have no effect."]
    for name, _, value, origin in rows:
        if name == "token":
            if value is not None:
                say("the token is not shown: keep it in PYTOOLS_TOKEN")
            continue
        is_allowed = name == "database" or is_allowed_in_found(name, value)
        if not is_allowed and origin != _DEFAULT:
            say(f"{name} is only allowed in a file named by --config or PYTOOLS_CONFIG")
        if name == "database" and settings.server is not None:
            say("database is only allowed in a file named by --config or PYTOOLS_CONFIG")
            if settings.server.url != settings.server.shown:
                say("its password is not shown: keep it in PGPASSWORD or in ~/.pgpass")
        elif name in {"root", "database"} and origin != _DEFAULT:
            # Paths in a settings file are relative to that file, which may be written anywhere.
            paths = [os.path.abspath(it) for it in ([value] if isinstance(value, str) else value)]  # noqa: PTH100
            value = paths[0] if name == "database" else paths
        # JSON and TOML write numbers, booleans, strings and lists of them the same way.
        line = f"{name} = {'' if value is None else _as_toml_value(value)}"
        is_default = origin == _DEFAULT or not is_allowed
        lines.append(f"# {line}".rstrip() if is_default else line)
    return "\n".join([*lines, ""])
