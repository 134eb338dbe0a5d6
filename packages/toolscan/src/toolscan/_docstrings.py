"""The contents of docstrings: the description, the summary, parameters, tags."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from toolscan._layout import split_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolscan._layout import ToolId

# Words about calling a tool and getting its result, which describe every tool.
_CALLING_WORDS = """
    run runs running call calls calling invoke invokes invoking execute executes executing
    perform performs tool tools function functions method wrapper operation command mcp server
    return returns returning get gets give gives given result results response output outputs
    value values data object objects instance model models type types typed pydantic parse
    parses parsed parsing structured structure unstructured raw json dict validated param params
    parameter parameters arg args argument arguments input inputs a an and as from in into it
    its of on or the then this to with using via by for if
"""
_CALLING = frozenset(_CALLING_WORDS.split())

_MAX_SUMMARY = 1_000
_MAX_LENGTH_READ = 100_000
_QUOTED = re.compile(r"(\"\"\"|''')(.*?)(?:\1|\Z)", re.DOTALL)
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s+[^\sa-z])|[。！？])", re.DOTALL)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|No)|\b[A-Z])\.\Z")
_SECTION = re.compile(
    r"^[ \t]*(?:\*\*|__|)(?:args|arguments|params|parameters|keyword args|keyword arguments|"
    r"other parameters|returns?|yields?|raises|examples?|notes?|attributes|tags|use[ -]cases?)"
    r"[ \t]*(?:\*\*|__|)[ \t]*:(?:\*\*|__|)[ \t]*$"
    r"|^[ \t]*[:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises)\b"
    r"|^[^\n]+\n[ \t]*-{3,}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring, read by the rules for the docstrings of tool modules.

    Attributes:
        text: Its text, with the indentation removed as by `inspect.getdoc`.
    """

    text: str

    @property
    def summary(self) -> str:
        """Its first sentence, on one line."""
        paragraph = _first_paragraph(self.text)
        if len(paragraph) > _MAX_SUMMARY:
            paragraph = f"{paragraph[: _MAX_SUMMARY - 1]}…"
        end = 0
        while found := _SENTENCE.match(paragraph, end):
            end = found.end()
            if not _ABBREVIATION.search(paragraph[:end]):
                return paragraph[:end]
        return paragraph

    @property
    def parameters(self) -> Mapping[str, str]:
        """The description of each parameter that has one, by name."""
        return parameter_descriptions(self.text)

    @property
    def tags(self) -> tuple[str, ...]:
        """The items of its `Tags:` section."""
        return _listed(self.text, "Tags")

    @property
    def use_cases(self) -> tuple[str, ...]:
        """The items of its `Use cases:` section."""
        return _listed(self.text, "Use[ -][Cc]ases")

    @property
    def examples(self) -> tuple[str, ...]:
        """Its examples in order: at most 10, each at most 2,000 characters.

        An example is a paragraph of a section called "Example", "Examples" or "Usage examples"
        (Google's, NumPy's and Markdown's way of writing them), a fenced block there, or a doctest
        anywhere.
        """
        lines = self.text[:_MAX_LENGTH_READ].split("\n")
        found: list[str] = []
        number = 0
        while number < len(lines):
            if (start := _example_section(lines, number)) is not None:
                body, number = _example_lines(lines, *start)
                found += _paragraphs(body)
            elif lines[number].lstrip().startswith(">>> "):
                end = number
                while end < len(lines) and lines[end].strip():
                    end += 1
                found += _paragraphs(lines[number:end])
                number = end
            else:
                number += 1
        return tuple(example[:_MAX_LENGTH] for example in dict.fromkeys(found))[:_MAX_EXAMPLES]


def is_generic(text: str, tool: ToolId) -> bool:
    """Return whether a docstring says nothing specific about its tool.

    That is so if its first paragraph consists of words about calling a tool and getting its result,
    and of words in the tool's id: "Run tool and return parsed structured data." fits every tool.
    """
    words = split_identifier(_first_paragraph(text))
    known = split_identifier(f"{tool.name} {tool.category}")
    return _CALLING.union(known).issuperset(words)


def _first_paragraph(text: str) -> str:
    section = _SECTION.search(text)
    head = text[: section.start()] if section and section.start() else text
    return " ".join(re.split(r"\n[ \t]*\n", head.strip(), maxsplit=1)[0].split())


def readable_docstrings(data: bytes) -> str:
    text = data[:_MAX_LENGTH_READ].decode("utf-8", "replace")
    return "\n".join(found[2] for found in _QUOTED.finditer(text))[:_MAX_SUMMARY]


def _listed(text: str, title: str) -> tuple[str, ...]:
    # The title is capitalised and not indented; otherwise it would be a parameter of that name.
    found = re.search(rf"^{title}[ \t]*:[ \t]*(.*)$", text, re.MULTILINE)
    if found is None:
        return ()
    items = (item.strip() for item in _items(found[1], text[found.end() + 1 :].split("\n")))
    return tuple(dict.fromkeys(item for item in items if item))


def _items(beside: str, below: list[str]) -> list[str]:
    items = beside.split(",") if beside.strip() else []
    is_bulleted = False
    for line in below:
        if not line.strip():
            if items:
                break
        elif mark := re.match(r"[ \t]*[-*+•][ \t]+", line):
            items.append(line[mark.end() :])
            is_bulleted = True
        elif not line[0].isspace():
            break
        elif is_bulleted:
            items[-1] += f" {line.strip()}"
        else:
            items.extend(line.split(","))
    return items


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
    if len(text) > _MAX_LENGTH_READ or not _MARK.search(text):
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
        text, below = self._texts[number], self._texts[number + 1 : number + 2]
        if is_bulleted:
            return not _BULLET.match(text)
        return after_blank or bool(_END.match(text)) or any(map(_UNDERLINE.fullmatch, below))

    def _table(self) -> Iterator[_Item]:
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


_MAX_EXAMPLES = 10
_MAX_LENGTH = 2_000
_EXAMPLE_TITLE = re.compile(
    r"([ \t]*)(?:#+[ \t]*|\*\*|__)?(?:usage )?examples?"
    r"(?:\*\*|__)?[ \t]*(:(?:\*\*|__)?)?[ \t]*(.*)",
    re.IGNORECASE,
)
_DASHES = re.compile(r"[ \t]*-{3,}[ \t]*")
# Another section: "Returns:", "Returns" over a line of dashes, "## Notes", ":param x:".
_OTHER_TITLE = re.compile(r"[ \t]*(?:(\*\*|__|)[A-Z][\w ]{1,30}(?:\1:|:\1)|#+ .*|:\w+.*)")
_FENCE = "```"


def _example_section(lines: list[str], number: int) -> tuple[int, int, str] | None:
    """Return where a section's text begins, its indent, and the text after its title."""
    title = _EXAMPLE_TITLE.fullmatch(lines[number])
    if title is None:
        return None
    indent, colon, beside = len(title[1]), title[2], title[3]
    if number + 1 < len(lines) and _DASHES.fullmatch(lines[number + 1]) and not beside:
        return number + 2, indent, ""
    is_heading = lines[number].lstrip().startswith("#") and not beside
    return (number + 1, indent, beside) if colon or is_heading else None


def _example_lines(lines: list[str], start: int, indent: int, beside: str) -> tuple[list[str], int]:
    first = next((line for line in lines[start:] if line.strip()), "")
    is_indented = _indent(first) > indent
    end, in_fence = start, False
    while end < len(lines):
        line = lines[end]
        if line.strip() and not in_fence:
            ends = _indent(line) <= indent if is_indented else _ends_examples(lines, end)
            # The text after the title is the whole section, unless more is indented below it.
            if ends or (beside and not is_indented):
                break
        in_fence ^= line.lstrip().startswith(_FENCE)
        end += 1
    return [beside, *lines[start:end]] if beside else lines[start:end], end


def _ends_examples(lines: list[str], number: int) -> bool:
    underlined = number + 1 < len(lines) and _DASHES.fullmatch(lines[number + 1])
    return bool(underlined) or bool(_OTHER_TITLE.fullmatch(lines[number]))


def _paragraphs(lines: list[str]) -> list[str]:
    """Split lines at blank lines outside fences; the fences themselves are removed."""
    paragraphs: list[list[str]] = [[]]
    in_fence = False
    for line in lines:
        if line.lstrip().startswith(_FENCE):
            in_fence = not in_fence
            paragraphs.append([])
        elif line.strip() or in_fence:
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    texts = (textwrap.dedent("\n".join(paragraph)).strip() for paragraph in paragraphs)
    return [text for text in texts if text]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
