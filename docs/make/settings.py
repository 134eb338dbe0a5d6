"""Print the page of settings, as Markdown, from the settings themselves.

From the root of the repository:

    uv run python docs/make/settings.py > docs/settings.md

A test checks that `settings.md` is what this prints.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytools_hybrid.settings import ALIASES, Settings, flag, variable

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

INTRODUCTION = """\
# Settings

The defaults need nothing. A flag wins over an environment variable, that over a settings file, and
that over the default. Every setting has a name, which is its key in a file; its variable is
`PYTOOLS_` and the name in capitals, but `PYTOOLS_DIR` for the root.

| setting | flag | variable | default | is |
|---|---|---|---|---|"""
REST = """\

A list is written with commas in a variable (several roots with what your PATH has between its
folders), as a list in a file, and as a flag again and again.

`PYTOOLS_FIELD_WEIGHTS` is `name=5,parameters=0.75`; in a file it is a table, `[field_weights]`.

## Other names

The names that other versions and programs use for a setting are accepted too: as a variable
(`PYTOOLS_TOP_K`), as a key in a file, and as an argument of a search over MCP and HTTP. Giving a
setting under two names in one place, with different values, is an error; if a flag is given twice,
the last one counts. Python's `search` accepts `top_k` too.

@ALIASES@

Older names of providers are replaced with those that pydantic-ai uses now: `google-gla:` with
`google:`, `google-vertex:` with `google-cloud:`.

## Variables that are not settings

Three variables are not settings: `PYTOOLS_CONFIG` names the settings file, and
[imported tools](guides/import.md) read `PYTOOLS_SERVERS`, the configuration of their servers, and
`PYTOOLS_CALL_TIMEOUT`, the seconds that a call may take.

## In a file

The nearest `pytools.toml` counts, or `pyproject.toml` with a table `[tool.pytools]`, in the folder
where the command is started or one above it. Paths in it start from its own folder. A
file that is merely found, and may be a stranger's, cannot say to whom this machine is open
(`transport`, `host`, `token`, `allowed_hosts`, `outside_links`): for these it has to be named, by
`--config FILE` or `PYTOOLS_CONFIG`
([why](decisions/0014-a-settings-file-that-is-found-opens-nothing.md)). For example, `pytools.toml`:

```toml
root = ["examples/tools"]
exclude = ["*:delete_*"]
threshold = 0.3
log-level = "ERROR"
```

## What is set, and where?

```console
$ PYTOOLS_LIMIT=3 pytools-hybrid config
root = …/examples/tools  (…/pytools.toml; PYTOOLS_DIR)
…
threshold = 0.3  (…/pytools.toml; PYTOOLS_THRESHOLD)
limit = 3  (PYTOOLS_LIMIT; PYTOOLS_LIMIT)
…
```

A variable that begins with `PYTOOLS_` and is no setting is told on stderr, with the one that may
have been meant; a key of a file that is none is an error. The token is never printed."""

_MEANINGS = {
    "model": "the flag is `--model`",
    "database_path": "the flag is `--database-path`",
    "top_k": "the flag is `--top-k`",
    "min_confidence": "the flag is `--min-confidence`",
    "alpha": "the weight of meaning, from 0 to 1; words have the rest; the flag is `--alpha`",
}


def main() -> None:
    """Print the page."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    print(INTRODUCTION)
    for name, field in Settings.model_fields.items():
        if not field.description:
            raise SystemExit(f"the setting {name} says nothing of itself")
        given = flag(name)
        cells = (name, given, variable(name), _default(field))
        shown = [f"`{cell}`" if cell else "" for cell in cells]
        print(f"| {' | '.join(shown)} | {field.description} |")
    print(REST.replace("@ALIASES@", _aliases()))


def _aliases() -> str:
    rows = [
        f"| `{alias}` | `{'`, `'.join(names)}` | {_MEANINGS.get(alias, '')} |"
        for alias, names in ALIASES.items()
    ]
    return "\n".join(["| other name | setting | |", "|---|---|---|", *rows])


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value in ((), {}):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
