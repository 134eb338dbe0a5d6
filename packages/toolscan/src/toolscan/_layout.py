"""Ids of tools, and layouts: where tools are in a tree.

A layout is a path pattern with `{category}` and `{name}` in it. It turns a path into a tool's id
without reading the file, and an id into a path. Without `{name}`, a file contains several tools,
which are named after their functions.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from toolscan.errors import ToolScanError

if TYPE_CHECKING:
    from collections.abc import Iterable

# One class letter per character: Upper, Lower (and caseless letters), Digit, or a Separator; "s",
# which ends plurals, has its own.
_ASCII_CLASSES = (
    {
        code: "U" if chr(code).isupper() else "L" if chr(code).islower() else "D"
        for code in range(128)
        if chr(code).isalnum()
    }
    | {code: "S" for code in range(128) if not chr(code).isalnum()}
    | {ord("s"): "s"}
)

# The last capital of an acronym belongs to the next word, HTTPServer is HTTP + Server, but URLs is
# one word.
_WORD = re.compile("U{2,}s(?![Ls])|U+(?=U[Ls])|U?[Ls]+|U+|D+")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class _InvalidError(ToolScanError, ValueError):
    pass


def _invalid_id(text: str, problem: str) -> ToolScanError:
    return _InvalidError(f"{text!r} is not a tool id: {problem}; write source:category:name")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ToolId:
    """Identity of a tool, written `source:category:name`.

    Raises:
        ToolScanError: A part is empty, or has a character that ids cannot have.
    """

    source: str
    category: str
    name: str

    def __post_init__(self) -> None:
        if problem := id_problem(self.source, self.category, self.name):
            raise _invalid_id(str(self), problem)

    def __str__(self) -> str:
        return f"{self.source}:{self.category}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> ToolId:
        """Read `source:category:name`.

        Raises:
            ToolScanError: The text has another form.
        """
        parts = text.split(":")
        if len(parts) != 3:
            raise _invalid_id(text, f"it has {len(parts)} part(s), not three")
        return cls(source=parts[0], category=parts[1], name=parts[2])

    def embedding_text(
        self, description: str, parameter_names: Iterable[str], *, tags: Iterable[str] = ()
    ) -> str:
        """Return the text that represents the tool in vector search.

        It depends only on what an index stores, so that a tool can be embedded later without its
        file. Compatibility characters are plain ones in it (NFKC), as in requests. Tags that the
        description mentions are not repeated. The names of parameters come last, where a model that
        truncates long texts, or weights their beginnings more, loses the least.
        """
        said = description.casefold()
        name, category = spaced_words(self.name), spaced_words(self.category)
        labels = ", ".join(tag for tag in tags if tag.casefold() not in said)
        parameters = ", ".join(map(spaced_words, parameter_names))
        text = " ".join(filter(None, (f"{name} ({category}): {description}", labels, parameters)))
        return text if text.isascii() else unicodedata.normalize("NFKC", text)

    @staticmethod
    def words_of(text: str) -> list[str]:
        """Split an identifier, a path part or any text into lower-case words.

        >>> ToolId.words_of("createPullRequest2"), ToolId.words_of("HTTPServer2")
        (['create', 'pull', 'request', '2'], ['http', 'server', '2'])
        >>> ToolId.words_of("listURLs"), ToolId.words_of("ＡＰＩ")
        (['list', 'urls'], ['api'])
        """
        return split_identifier(text)


def split_identifier(text: str) -> list[str]:
    if text.isascii():
        classes = text.translate(_ASCII_CLASSES)
    else:
        # Letters with their accents become one character, and compatibility characters plain ones.
        text = unicodedata.normalize("NFKC", text)
        classes = "".join(map(_class_of, text))
    return [text[match.start() : match.end()].lower() for match in _WORD.finditer(classes)]


def _class_of(char: str) -> str:
    if char == "s":
        return "s"
    if char.isupper() or char.istitle():
        return "U"
    if char.isnumeric() and not char.isalpha():
        return "D"
    # A mark (vowel sign, accent without a composed form) belongs to the letter before it.
    if char.isalpha() or unicodedata.category(char)[0] == "M":
        return "L"
    return "S"


# A tree has few words for its categories and parameters.
@lru_cache(1 << 12)
def spaced_words(identifier: str) -> str:
    return " ".join(split_identifier(identifier)) or identifier


def id_problem(*parts: str) -> str:
    """Return why the parts cannot form an id; "" if they can."""
    joined = "".join(parts)
    if joined.isascii() and joined.isprintable() and ":" not in joined and all(parts):
        return ""
    for part in parts:
        if not part:
            return "a part is empty"
        if ":" in part:
            return f"the part {part!r} contains ':', which separates the parts"
        for char in part:
            if unicodedata.category(char) in {"Cc", "Cs"}:
                return f"the part {part!r} contains the character {char!r}"
    return ""


def is_private(part: str) -> bool:
    return part.startswith("_")


class PathPart(NamedTuple):
    """One part of a layout's path: a fixed name, or a pattern with placeholders."""

    text: str
    pattern: re.Pattern[str] | None
    only: tuple[str, str, str] = ("", "", "")
    """For the usual part with one placeholder: the text before it, its name, the text after it."""

    def match(self, name: str) -> dict[str, str] | None:
        """Return the placeholders' values for a file or folder name; `None` if it differs."""
        if self.pattern is None:
            return {} if name == self.text else None
        before, placeholder, after = self.only
        if placeholder:  # the same as the pattern, but several times faster
            value = name[len(before) : len(name) - len(after)]
            return {placeholder: value} if value and name == before + value + after else None
        found = self.pattern.fullmatch(name)
        return found.groupdict() if found else None


@dataclass(frozen=True, slots=True)
class Layout:
    """A source of tools and the pattern of their paths.

    Args:
        source: The first part of the ids.
        pattern: Posix path relative to the root, in which `{category}` and `{name}` each appear
            once, in any part: `scripts/{category}/{name}.py`. Without `{name}`, every public
            function of a file is a tool, or only those with the decorator `@tool` or in `__all__`,
            if there are any. A package can import its tools from its own modules.
        any_function: Whether a file with `{name}` may lack `run()`. Its tool is then the function
            with the file's name, or else its only public function.

    Raises:
        ToolScanError: The pattern is not such a path.
    """

    source: str
    pattern: str
    any_function: bool = False
    parts: tuple[PathPart, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = sorted(_PLACEHOLDER.findall(self.pattern))
        parts = self.pattern.split("/")
        problem = ""
        if invalid := id_problem(self.source):
            problem = f"its source {self.source!r} is invalid: {invalid}"
        elif names not in (["category"], ["category", "name"]):
            problem = "it needs {category} once, and {name} at most once"
        elif not all(parts) or {".", ".."} & set(parts):
            problem = "it must be a plain path relative to the root"
        if problem:
            advice = "write a path like 'tools/{category}/{name}.py'"
            raise _InvalidError(f"{self.pattern!r} is not a layout: {problem}; {advice}")
        object.__setattr__(self, "parts", tuple(_path_part(part) for part in parts))

    @property
    def holds_several(self) -> bool:
        return "{name}" not in self.pattern

    def match(self, path: str) -> ToolId | None:
        """Return the id of the tool at a path; `None` if there can be none, or several.

        The path is posix and relative to the root; the file is not opened.
        """
        values = self.values(path)
        if values is None or self.holds_several:
            return None
        if id_problem(*values.values()) or self.hides(path):
            return None
        return ToolId(source=self.source, category=values["category"], name=values["name"])

    def values(self, path: str) -> dict[str, str] | None:
        """Return a path's category and name, valid or not; `None` if it does not match."""
        names = path.split("/")
        if len(names) != len(self.parts):
            return None
        values: dict[str, str] = {}
        for part, name in zip(self.parts, names, strict=True):
            found = part.match(name)
            if found is None:
                return None
            values |= found
        return values

    def hides(self, path: str) -> bool:
        """Return whether a matching path is private; fixed names of the layout do not count."""
        return any(
            is_private(name)
            for part, name in zip(self.parts, path.split("/"), strict=True)
            if part.pattern
        )

    def path_of(self, category: str, name: str) -> str:
        """Return the only path at which this layout can have the tool."""
        return self.pattern.replace("{category}", category).replace("{name}", name)


def _path_part(text: str) -> PathPart:
    if not _PLACEHOLDER.search(text):
        return PathPart(text, None)
    # A name has at least one character, so that "{name}.py" does not match ".py".
    pieces = _PLACEHOLDER.split(text)
    pattern = "".join(
        f"(?P<{piece}>.+?)" if index % 2 else re.escape(piece) for index, piece in enumerate(pieces)
    )
    only = (pieces[0], pieces[1], pieces[2]) if len(pieces) == 3 else ("", "", "")
    return PathPart(text, re.compile(pattern, re.DOTALL), only)


DEFAULT_LAYOUTS = (
    Layout("mcptools", "mcptools/{category}/{name}.py"),
    Layout("gentools", "gentools/{category}/{name}/api.py"),
)
"""Modules generated from MCP servers, and packages written by agents."""

LAYOUTS = {
    **{layout.source: layout for layout in DEFAULT_LAYOUTS},
    "modules": Layout("modules", "{category}/{name}.py", any_function=True),
    "functions": Layout("functions", "{category}.py"),
    "packages": Layout("packages", "{category}/__init__.py"),
}
"""Layouts by name, which is also their source: in addition to the default ones, a module for each
tool, modules of several functions, and packages of such modules."""
