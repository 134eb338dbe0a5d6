"""Print the reference of the command line, as Markdown, from the command line's own help.

From the root of the repository:

    uv run python docs/make/cli.py > docs/cli.md

A test checks that `cli.md` is what this prints.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

INTRODUCTION = """\
# The command line

Results are written to stdout, everything else to stderr; tables, colours and progress bars are for
terminals. The exit status is 0 on success, 1 if nothing was found or something failed, and 2 for
wrong usage. Settings come from flags, the environment and files, in this order; see
[settings](settings.md).

This page is generated from the help texts that `pytools-hybrid COMMAND --help` prints.
"""
# The brackets in a help text: "[env: PYTOOLS_DIR; default: examples/tools]".
_FACTS = re.compile(r"\s*\[((?:env|default|required|\d|x)(?:[^][]|\[[^]]*\])*)\]")
# Shorter names for the types of values.
_VALUES = {"list[str]": "str", "list[Path]": "path", "int range": "int", "float range": "float"}
_INDENT = "  "
_PIPE = r"\|"


class UndocumentedError(Exception):
    """A command, an argument or an option has no help."""


def main() -> None:
    """Print the page."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    print("\n".join(page()))


def page() -> Iterator[str]:
    """Return the lines of the page.

    Raises:
        UndocumentedError: Something has no help, or a command no example.
    """
    from pytools_hybrid.cli.app import top

    yield INTRODUCTION
    for name, command in _commands(typer.main.get_command(top), "pytools-hybrid"):
        yield from _section(name, command)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer's own
    yield name, command
    for below, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from _commands(each, f"{name} {below}")


def _section(name: str, command: Any) -> Iterator[str]:  # noqa: ANN401 - typer's own
    short = name.removeprefix("pytools-hybrid ")
    if not command.help or not (command.epilog or hasattr(command, "commands")):
        raise UndocumentedError(f"{short} needs a docstring, and an epilog with an example")
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"## `{short}`\n\n{command.help.strip()}\n"
    below = {it: each for it, each in getattr(command, "commands", {}).items() if not each.hidden}
    if below:
        yield "| command | |\n|---|---|"
        for each, its in below.items():
            anchor = f"{short} {each}".removeprefix("pytools-hybrid ").replace(" ", "-")
            yield _row(
                f"[`{each}`](#{anchor})",
                _plain(its.help.strip().partition("\n\n")[0].replace("\n", " ")),
            )
        yield ""
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    if command.params:
        yield "| | | default | variable |\n|---|---|---|---|"
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None:
            continue
        shown, text = record
        if not parameter.help:
            raise UndocumentedError(f"{shown} of {short} needs a help text")
        text, facts = _facts(text)
        default = _plain(facts.get("default", ""))
        for value, simple in _VALUES.items():
            shown = shown.replace(f"<{value}>", f"<{simple}>")
        yield _row(f"`{shown}`", _plain(text), default, facts.get("env", ""))
    yield f"\n{_examples(command.epilog or '')}\n"


def _facts(text: str) -> tuple[str, dict[str, str]]:
    """Split the brackets off a help text."""
    told = [fact for found in _FACTS.finditer(text) for fact in found[1].split("; ")]
    facts: dict[str, str] = {}
    for fact in told:
        key, separator, value = fact.partition(": ")
        if key == "env":
            # "PYTOOLS_INCLUDE, with commas"
            facts["env"] = re.sub(r"\b(PYTOOLS_\w+)", r"`\1`", value)
        elif separator:
            facts["default"] = ", ".join(filter(None, [value, facts.get("default")]))
        else:
            fact = re.sub(r"^(\S+)<=x<=(\S+)$", r"\1 to \2", fact).replace("default where", "where")
            facts["default"] = ", ".join(filter(None, [facts.get("default"), fact]))
    return _FACTS.sub("", text), facts


def _plain(text: str) -> str:
    return re.sub(r"([*_])", r"\\\1", text).replace("<", "&lt;")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', _PIPE) for cell in cells)} |"


def _examples(epilog: str) -> str:
    """Return an epilog as Markdown: text that is indented or follows "Example:" becomes code."""
    text = re.sub(r"^Example: (.+)$", rf"Example:\n{_INDENT}$ \1", epilog.strip(), flags=re.M)
    parts: list[tuple[bool, list[str]]] = []
    for line in text.replace("\b", "").splitlines():
        is_code = line.startswith(_INDENT)
        if not parts or (parts[-1][0] != is_code and line.strip()):
            parts.append((is_code, []))
        parts[-1][1].append(line.removeprefix(_INDENT) if is_code else line)
    shown = [(is_code, "\n".join(lines).strip()) for is_code, lines in parts]
    return "\n\n".join(
        f"```sh\n{each}\n```" if is_code else each for is_code, each in shown if each
    )


if __name__ == "__main__":
    main()
