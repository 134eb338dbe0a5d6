"""The descriptions of parameters in a docstring: in sections, lists, tables and fields.

The styles (Google, NumPy, Sphinx, epydoc, Markdown) are read in one pass, because people mix them.
Everything that looks like a description is returned; names that are not parameters do no harm.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_SECTIONS = 100_000
"""Longer docstrings are not read."""
_TITLES = "args|arguments|params|parameters|kwargs|options|inputs?"
_TITLE = re.compile(
    r"(?P<heading>#{1,6}[ \t]+)?(?P<mark>\*{1,3}|_{1,2}|)"
    rf"(?:(?:\w+[ \t]+){{0,3}}(?:{_TITLES})|(?P<attributes>attributes|fields))(?:[ \t]*\([^()]*\))?"
    r"(?:[ \t]*(?P<colon>:)(?P=mark)|(?P=mark)(?:[ \t]*(?P<colon_after>:))?)"
    r"[ \t]*(?P<item>\S.*)?",
    re.IGNORECASE,
)
"""The title of a section, with any markup; "Attributes" and "Fields" are for classes."""
_UNDERLINE = re.compile(r"-{3,}|={3,}|~{3,}")
_END = re.compile(r"#{1,6}[ \t]|\*\*[^*]*\*\*:?$|(?:\w+ ){0,3}\w+:$|[:@\\]\w")
"""The first line after a list that is not indented: a heading, another title, a field."""

_SPHINX = re.compile(
    r":(?P<kind>\w+)[ \t](?P<type>[^:\n]*[ \t])?\\?\*{0,2}(?P<names>\w+)[ \t]*:(?P<text>.*)"
)
_EPYDOC = re.compile(
    r"[@\\](?P<kind>\w+)(?:\[[^]]*\])?[ \t]+(?:\{[^}]*\}[ \t]*)?\[?\*{0,2}(?P<names>\w+)\]?"
    r"(?:[ \t]*:|[ \t]+-{1,2}(?=[ \t])|(?=[ \t]))(?P<text>.*)"
)
"""A tag of epydoc, and of others that Python tools borrow: Doxygen's and JSDoc's."""
_FIELDS = {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"}
_CLASS_FIELDS = {"ivar", "cvar", "var", "attr", "attribute"}

_BULLET = re.compile(r"(?:[-*+•–]|\d+[.)])[ \t]+")
_NAME = r"(?:\\?\*){0,2}(?:\w|\\_)+"
_ITEM = re.compile(
    rf"(?P<mark>[`*\"']{{0,4}})(?P<names>{_NAME}(?:[`*\"']*,[ \t]*[`*\"']*{_NAME})*)[`*\"']*+"
    r"(?P<type>[ \t]*[*`_]*(?:\((?:[^()]|\([^()]*\))*\)|\[(?:[^][]|\[[^][]*\])*\]|\{[^{}]*\})"
    r"[*`_]*)?(?:[ \t]*:(?:(?P=mark))?|[ \t]+(?:-{1,3}|[–—]|=>?|->)(?=[ \t])|[ \t]*$"
    r"|(?(type)(?=[ \t])|\Z))"
    r"(?P<text>.*)"
)
_LOOSE = re.compile(rf"(?P<names>{_NAME})[ \t][^:]*:(?P<text>.*)")
_MARKED = re.compile(rf"(?P<mark>`{{1,2}}|\*\*)(?P<names>{_NAME})(?P=mark)[ \t](?P<text>.+)")

_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?")
_NAME_COLUMN = re.compile(
    rf"name|field|attribute|key|param|parameter|argument|arg|option|{_TITLES}", re.I
)
_TEXT_COLUMN = re.compile(r"descriptions?|meaning|details|notes?|purpose|explanation", re.I)

_MARK = re.compile(
    rf"^[#*_ \t]*+(?:\w+[ \t]++){{0,3}}(?:{_TITLES}|attributes|fields)\b"
    rf"|^[ \t]*+[:@\\](?:{'|'.join(sorted(_FIELDS | _CLASS_FIELDS))})\b"
    r"|^[ \t]*+[|:-][ \t:|-]*-\|?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""What a docstring that describes parameters contains; most do not."""


class _Item(NamedTuple):
    """The description of some parameters, beside their names and below."""

    names: str
    beside: str
    below: list[str]
    is_typed: bool = False
    """Whether the text beside the names is a type, as in NumPy's style."""

    @property
    def description(self) -> str:
        beside = self.beside
        if self.is_typed and (self.below or not re.match(r"[A-Z]\w* ", beside.lstrip())):
            beside = ""
        return " ".join(" ".join([beside, *self.below]).split())


def parameter_descriptions(text: str, *, of_class: bool = False) -> dict[str, str]:
    """Return the description of each parameter that a docstring describes.

    Args:
        text: The docstring.
        of_class: Whether it documents a class, whose attributes are the parameters.
    """
    if len(text) > _MAX_SECTIONS or not _MARK.search(text):
        return {}
    found: dict[str, str] = {}
    for item in _Reader(text, of_class=of_class).items():
        if description := item.description:
            names = re.findall(r"\w+", item.names.replace("\\", ""))
            found |= dict.fromkeys(names, description)
    return found


class _Reader:
    def __init__(self, text: str, *, of_class: bool) -> None:
        self._lines = text.split("\n")
        self._texts = [line.strip() for line in self._lines]
        self._of_class = of_class
        self._number = 0

    def items(self) -> Iterator[_Item]:
        in_code = False
        while self._number < len(self._lines):
            text = self._texts[self._number]
            self._number += 1
            in_code ^= text.startswith(("```", "~~~"))
            if in_code:
                continue
            if text[:1] in (":", "@", "\\"):
                if field := self._field(text):
                    yield self._with_continuation(field)
            elif "|" in text and _RULE.fullmatch(text):
                yield from self._table()
            elif (title := _TITLE.fullmatch(text)) and (self._of_class or not title["attributes"]):
                yield from self._section(title)

    def _indent(self, number: int) -> int:
        return len(self._lines[number]) - len(self._lines[number].lstrip())

    def _field(self, text: str) -> _Item | None:
        found = _SPHINX.match(text) or _EPYDOC.match(text)
        kinds = _FIELDS | _CLASS_FIELDS if self._of_class else _FIELDS
        return (
            _Item(found["names"], found["text"], []) if found and found["kind"] in kinds else None
        )

    def _with_continuation(self, field: _Item) -> _Item:
        """Add the lines below a field, up to the next field, or an unindented paragraph."""
        indent, after_blank = self._indent(self._number - 1), False
        for number in range(self._number, len(self._lines)):
            text, is_deeper = self._texts[number], self._indent(number) > indent
            if text and not is_deeper and (after_blank or text[0] in ":@\\"):
                break
            after_blank = not text
            field.below.append(text)
            self._number = number + 1
        return field

    def _section(self, title: re.Match[str]) -> Iterator[_Item]:
        has_colon = title["colon"] or title["colon_after"]
        if title["item"]:
            item = _item(title["item"]) if has_colon else None
            yield from [item] if item else ()
            return
        outside = self._indent(self._number - 1)
        is_underlined = any(map(_UNDERLINE.fullmatch, self._texts[self._number : self._number + 1]))
        self._number += is_underlined
        start = self._number
        first = next((it for it in range(start, len(self._lines)) if self._texts[it]), None)
        if first is None or any(map(_RULE.fullmatch, self._texts[first + 1 : first + 2])):
            return  # a table comes next
        is_bulleted = bool(_BULLET.match(self._texts[first]))
        # Without a colon, or under a heading, a list need not be indented.
        is_open = is_underlined or not has_colon or bool(title["heading"] or title["mark"])
        indent = self._indent(first)
        if indent > outside or is_bulleted or is_open or (first == start and indent == outside):
            yield from self._list(first, outside, is_bulleted, is_open, is_underlined)

    def _list(
        self, first: int, outside: int, is_bulleted: bool, is_open: bool, is_underlined: bool
    ) -> Iterator[_Item]:
        """Yield the items of a list, and go to the line after it."""
        indent, item, after_blank = self._indent(first), None, False
        for number in range(first, len(self._lines)):
            text, own = self._texts[number], self._indent(number)
            if not text:
                after_blank = True
                continue
            if own < indent and is_underlined and own >= outside:
                indent = own  # only the first item is indented
            is_title = text.startswith("**") or _END.match(text)
            is_lazy = is_bulleted and not (after_blank or is_title or _BULLET.match(text))
            if own > indent or (own == indent and is_lazy):
                if item:
                    item.below.append(text)
            elif own < indent or (
                indent <= outside and self._ends(number, is_bulleted, after_blank and not is_open)
            ):
                break
            else:
                if item:
                    yield item
                item = self._field(text) or _item(text)
                if item and not is_bulleted and is_open and (is_underlined or " :" in text):
                    item = item._replace(is_typed=True)
            after_blank = False
            self._number = number + 1
        if item:
            yield item

    def _ends(self, number: int, is_bulleted: bool, after_blank: bool) -> bool:
        """Return whether a line that is not indented ends a list."""
        text, below = self._texts[number], self._texts[number + 1 : number + 2]
        if is_bulleted:
            return not _BULLET.match(text)
        return after_blank or bool(_END.match(text)) or any(map(_UNDERLINE.fullmatch, below))

    def _table(self) -> Iterator[_Item]:
        """Yield the rows of a Markdown table, from the line below its rule."""
        header = _cells(self._texts[self._number - 2]) if self._number > 1 else []
        name = next((it for it, cell in enumerate(header) if _NAME_COLUMN.fullmatch(cell)), 0)
        text = next((it for it, cell in enumerate(header) if _TEXT_COLUMN.fullmatch(cell)), -1)
        while self._number < len(self._lines) and "|" in self._texts[self._number]:
            cells = _cells(self._texts[self._number])
            self._number += 1
            if len(cells) == len(header) > 1:
                yield _Item(cells[name], cells[text], [])


def _cells(row: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", row.strip().strip("|"))
    return [cell.strip().strip("`*") for cell in cells]


def _item(text: str) -> _Item | None:
    bullet = _BULLET.match(text)
    text = text[bullet.end() :] if bullet else text
    found = _ITEM.match(text) or _MARKED.match(text) or _LOOSE.match(text)
    return _Item(found["names"], found["text"], []) if found else None
