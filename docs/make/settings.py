"""Print the page of settings, as Markdown, from the settings themselves.

From the root of the repository:

    uv run python docs/make/settings.py > docs/settings.md

A test checks that `settings.md` is what this prints.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from pytools_hybrid.settings import ALIASES, Settings, flag, variable

if TYPE_CHECKING:
    from io import TextIOWrapper

    from pydantic.fields import FieldInfo

INTRODUCTION = """\
# Settings

Nothing has to be set. A flag takes precedence over an environment variable, a variable over a
settings file, and a file over the default. A setting's name is its key in a file; its variable is
`PYTOOLS_` and the name in capitals, except for `PYTOOLS_DIR`, the root.

| setting | flag | variable | default | meaning |
|---|---|---|---|---|"""
REST = """\

In a variable, separate the items of a list with commas (several roots with the separator of your
PATH). In a file, use a list. On the command line, repeat the flag.

`PYTOOLS_FIELD_WEIGHTS` is `name=5,parameters=0.75`; in a file it is a table, `[field_weights]`.

## Other names

The names that other versions and programs use for a setting are accepted too: as a variable
(`PYTOOLS_TOP_K`), as a key in a file, and as an argument of a search over MCP and HTTP. Giving a
setting under two names in one place, with different values, is an error. Python's `search` accepts
`top_k` too; the command line `--top-k`, `--min-confidence`, `--db`, `--database-path` and
`--embedding-model`.

@ALIASES@

Older names of providers are replaced with those that pydantic-ai uses now: `google-gla:` with
`google:`, `google-vertex:` with `google-cloud:`.

## Variables that are not settings

Three variables are not settings: `PYTOOLS_CONFIG` names the settings file, and
[imported tools](guides/import.md) read `PYTOOLS_SERVERS`, the configuration of their servers, and
`PYTOOLS_CALL_TIMEOUT`, the seconds that a call may take.

## In a file

The nearest `pytools.toml`, or `pyproject.toml` with a table `[tool.pytools]`, in the current folder
or one above it is used. Paths in it are relative to its folder. A file that was found this way may
be someone else's, so it cannot set what exposes this machine or decides what agents may do
(`tools = "call"`, `pin`, `read_only`, `confirm`, `run_python`, `python`, `python_memory`,
`transport`, `host`, `token`, `allowed_hosts`, `outside_links`, a `database` on a server): for these
the file has to be named with `--config FILE` or `PYTOOLS_CONFIG`
([why](decisions/0014-a-settings-file-that-is-found-opens-nothing.md)). For
example, `pytools.toml`:

```toml
root = ["examples/tools"]
exclude = ["*:delete_*"]
threshold = 0.3
log-level = "ERROR"
```

# # Show the settings

```console
$ PYTOOLS_LIMIT=3 pytools-hybrid config
root = …/examples/tools  (…/pytools.toml; PYTOOLS_DIR)
…
threshold = 0.3  (…/pytools.toml; PYTOOLS_THRESHOLD)
limit = 3  (PYTOOLS_LIMIT; PYTOOLS_LIMIT)
…
```

Unknown variables that begin with `PYTOOLS_` are reported on stderr, with the most similar setting;
an unknown key in a file is an error. The token is never printed."""

_MEANINGS = {
    "dir": "freeact's name",
    "alpha": "the weight of meaning, from 0 to 1; words have the rest",
}


def main() -> None:
    """Print the page."""
    cast("TextIOWrapper", sys.stdout).reconfigure(encoding="utf-8", newline="\n")
    print(INTRODUCTION)
    for name, field in Settings.model_fields.items():
        if not field.description:
            raise SystemExit(f"the setting {name} has no description")
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
    # A computed default is that of the model, shown for an installation without extras.
    value = "static" if field.default_factory else field.default
    if value is None or value in ((), {}):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
