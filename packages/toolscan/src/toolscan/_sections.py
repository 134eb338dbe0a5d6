"""The Args section of a docstring, through griffe's parsers."""

from __future__ import annotations

import re
from typing import Literal, cast

from griffe import Docstring, DocstringSectionKind

from toolscan._docstrings import ARGS_TITLE

_KINDS = {DocstringSectionKind.parameters, DocstringSectionKind.other_parameters}
_BULLET = re.compile(r"[-*+•][ \t]+")
_MARKED_UP = re.compile(r"(`{1,2}|\*\*)(\*{0,2}\w+)(:?)\1[ \t]*")


def parse_parameters(text: str, style: str, *, of_class: bool = False) -> dict[str, str]:
    """Return the description of each parameter that a docstring of this style describes."""
    parser = cast('Literal["google", "numpy", "sphinx"]', style)
    if style == "google":
        text = _as_google(text, of_class=of_class)
    elif style == "sphinx":
        text = _fields_alone(text)
    return {
        item.name.strip().lstrip("*"): " ".join(item.description.split())
        for section in Docstring(text).parse(parser, warnings=False)
        if section.kind in _KINDS
        for item in section.value
        if item.description
    }


def _as_google(text: str, *, of_class: bool) -> str:
    """Write Args sections as the parser expects them: plain, with a blank line before each."""
    lines = text.split("\n")
    written: list[str] = []
    in_code = False
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        in_code ^= line.lstrip().startswith("```")
        titled = not in_code and ARGS_TITLE.fullmatch(line)
        if titled and (of_class or "attributes" not in line.lower()):
            block = _block(lines, number)
            number += len(block)
            written += ["", "Args:", *_plain(block), ""]
        else:
            written.append(line)
    return "\n".join(written)


def _block(lines: list[str], start: int) -> list[str]:
    """Return the lines below a title that belong to it: indented, blank, or bulleted throughout."""
    end = start
    first = next((line for line in lines[start:] if line.strip()), "")
    is_bulleted = bool(_BULLET.match(first))
    while end < len(lines) and (
        not lines[end].strip()
        or lines[end][0].isspace()
        or (is_bulleted and _BULLET.match(lines[end]))
    ):
        end += 1
    return lines[start:end]


def _plain(block: list[str]) -> list[str]:
    """Write `- **name**: text` as `name: text`, from the first line that has text on."""
    filled = next((number for number, line in enumerate(block) if line.strip()), len(block))
    items = block[filled:]
    indent = len(items[0]) - len(items[0].lstrip()) if items else 0
    shift = "" if indent else "    "
    return [shift + (_item(line, indent) if line.strip() else line) for line in items]


def _item(line: str, indent: int) -> str:
    before, text = line[:indent], line[indent:]
    if before.strip() or text[0].isspace():
        return line  # no item starts here: it goes on, or the section has ended
    bullet = _BULLET.match(text)
    text = text[bullet.end() :] if bullet else text
    marked = _MARKED_UP.match(text)
    if marked:
        text = f"{marked[2]}{marked[3]}{text[marked.end() :]}"
    name, colon, said = text.partition(":")
    return f"{before}{name.rstrip()}{colon}{said}"


def _fields_alone(text: str) -> str:
    """Leave out the paragraphs between and after Sphinx fields: the last field would take them."""
    kept: list[str] = []
    in_field = after_blank = False
    for line in text.split("\n"):
        if line.startswith(":"):
            in_field = True
        elif line.strip() and after_blank and not line[0].isspace():
            in_field = False
        after_blank = not line.strip()
        if in_field:
            kept.append(line)
    return "\n".join(kept)
