"""The Args section of a docstring, through griffe's parsers."""

from __future__ import annotations

import re
from typing import Literal, cast

# Parsing time grows faster than the length of the text.
_MAX_SECTIONS = 100_000
_ARGS_TITLE = re.compile(
    r"^(\*\*|__|)(?:(?:keyword |other )?(?:args|arguments|params|parameters)|attributes)"
    r"[ \t]*(?:\1[ \t]*:|:\1)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""The title of a Google-style section, with any markup; "Attributes" is for classes."""

# If two styles describe one parameter, the earlier one has precedence.
_STYLES = (
    ("numpy", re.compile(r"^[ \t]*(?:Other )?Parameters[ \t]*\n[ \t]*-{3,}[ \t]*$", re.M | re.I)),
    ("sphinx", re.compile(r"^[ \t]*:(?:param|parameter|arg|argument|key|keyword)\b[^\n]*?:", re.M)),
    ("google", _ARGS_TITLE),
)
_BULLET = re.compile(r"[-*+•][ \t]+")
_MARKED_UP = re.compile(r"(`{1,2}|\*\*)(\*{0,2}\w+)(:?)\1[ \t]*")


def parameter_descriptions(text: str, *, of_class: bool = False) -> dict[str, str]:
    """Return the description of each parameter in the Args sections of a docstring.

    Google, NumPy and Sphinx styles are read, even if they are mixed.

    Args:
        text: The docstring.
        of_class: Whether it documents a class, whose attributes are the parameters.
    """
    styles = [style for style, mark in _STYLES if mark.search(text)]
    if not styles or len(text) > _MAX_SECTIONS:
        return {}
    found: dict[str, str] = {}
    for style in styles:
        found = _parsed(text, style, of_class=of_class) | found
    return found


def _parsed(text: str, style: str, *, of_class: bool = False) -> dict[str, str]:
    """Return the description of each parameter that a docstring of this style describes."""
    # Imported here because most docstrings have no such section, and griffe takes long to import.
    from griffe import Docstring, DocstringSectionKind

    kinds = {DocstringSectionKind.parameters, DocstringSectionKind.other_parameters}
    parser = cast('Literal["google", "numpy", "sphinx"]', style)
    if style == "google":
        text = _as_google(text, of_class=of_class)
    elif style == "sphinx":
        text = _fields_alone(text)
    return {
        item.name.strip().lstrip("*"): " ".join(item.description.split())
        for section in Docstring(text).parse(parser, warnings=False)
        if section.kind in kinds
        for item in section.value
        if item.description
    }


def _as_google(text: str, *, of_class: bool) -> str:
    """Rewrite Args sections as the parser expects them: plain, with a blank line before each."""
    lines = text.split("\n")
    written: list[str] = []
    in_code = False
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        in_code ^= line.lstrip().startswith("```")
        titled = not in_code and _ARGS_TITLE.fullmatch(line)
        if titled and (of_class or "attributes" not in line.lower()):
            block = _block(lines, number)
            number += len(block)
            written += ["", "Args:", *_plain(block), ""]
        else:
            written.append(line)
    return "\n".join(written)


def _block(lines: list[str], start: int) -> list[str]:
    """Return the lines below a title that belong to it: indented, blank, or all bulleted."""
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
    """Rewrite `- **name**: text` as `name: text`, and drop blank lines at the start."""
    filled = next((number for number, line in enumerate(block) if line.strip()), len(block))
    items = block[filled:]
    indent = len(items[0]) - len(items[0].lstrip()) if items else 0
    shift = "" if indent else "    "
    return [shift + (_item(line, indent) if line.strip() else line) for line in items]


def _item(line: str, indent: int) -> str:
    before, text = line[:indent], line[indent:]
    if before.strip() or text[0].isspace():
        return line  # it continues an item, or the section has ended
    bullet = _BULLET.match(text)
    text = text[bullet.end() :] if bullet else text
    marked = _MARKED_UP.match(text)
    if marked:
        text = f"{marked[2]}{marked[3]}{text[marked.end() :]}"
    name, colon, said = text.partition(":")
    return f"{before}{name.rstrip()}{colon}{said}"


def _fields_alone(text: str) -> str:
    """Drop paragraphs between and after Sphinx fields, which the parser would add to a field."""
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
