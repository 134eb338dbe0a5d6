"""Where tools are in a tree; no other module knows.

A layout is a path pattern with `{category}` and `{name}` in it. It turns a path into a tool's id
without reading the file, and an id into a path. Without `{name}`, a file holds several tools, which
have the names of their functions.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

from toolscan.errors import InvalidLayoutError, InvalidToolIdError

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ToolId:
    """Identity of a tool, written `source:category:name`."""

    source: str
    category: str
    name: str

    def __post_init__(self) -> None:
        if problem := id_problem(self.source, self.category, self.name):
            raise InvalidToolIdError(f"{self.source}:{self.category}:{self.name}", problem)

    def __str__(self) -> str:
        return f"{self.source}:{self.category}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> ToolId:
        """Read `source:category:name`.

        Raises:
            InvalidToolIdError: If the text is anything else.
        """
        parts = text.split(":")
        if len(parts) != 3:
            raise InvalidToolIdError(text, f"it has {len(parts)} part(s), not three")
        return cls(source=parts[0], category=parts[1], name=parts[2])


def id_problem(*parts: str) -> str:
    """Return why the parts cannot be an id, or "" if they can."""
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
    """Return whether a file or folder of this name is kept out of the index."""
    return part.startswith("_")


class PathPart(NamedTuple):
    """One part of a layout's path: a fixed name, or a pattern with placeholders."""

    text: str
    pattern: re.Pattern[str] | None
    only: tuple[str, str, str] = ("", "", "")
    """For the usual part with one placeholder: the text before it, its name, the text after it."""

    def match(self, name: str) -> dict[str, str] | None:
        """Return the placeholders' values for a file or folder name, `None` where it differs."""
        if self.pattern is None:
            return {} if name == self.text else None
        before, placeholder, after = self.only
        if placeholder:  # as the pattern, and several times faster
            value = name[len(before) : len(name) - len(after)]
            return {placeholder: value} if value and name == before + value + after else None
        found = self.pattern.fullmatch(name)
        return found.groupdict() if found else None


@dataclass(frozen=True, slots=True)
class Layout:
    """A source of tools and the pattern of their paths.

    Args:
        source: First part of the ids.
        pattern: Posix path relative to the root, in which `{category}` and `{name}` each appear
            once, in any part: `scripts/{category}/{name}.py`. Without `{name}`, every public
            function of a file is a tool; where some have the decorator `@tool`, or there is an
            `__all__`, only those are; a package's may come from its own modules.
        any_function: Whether a file with `{name}` need not define `run()`: its tool is then the
            function with the file's name, or else its only public function.

    Raises:
        InvalidLayoutError: If the pattern is not such a path.
    """

    source: str
    pattern: str
    any_function: bool = False
    parts: tuple[PathPart, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if problem := id_problem(self.source):
            raise InvalidLayoutError(
                self.pattern, f"its source {self.source!r} cannot be: {problem}"
            )
        names = _PLACEHOLDER.findall(self.pattern)
        if sorted(names) not in (["category"], ["category", "name"]):
            raise InvalidLayoutError(
                self.pattern, "it needs {category} once, and {name} at most once"
            )
        parts = self.pattern.split("/")
        if not all(parts) or {".", ".."} & set(parts):
            raise InvalidLayoutError(self.pattern, "it must be a plain path relative to the root")
        object.__setattr__(self, "parts", tuple(_path_part(part) for part in parts))

    @property
    def holds_several(self) -> bool:
        """Whether a file holds several tools."""
        return "{name}" not in self.pattern

    def match(self, path: str) -> ToolId | None:
        """Return the id of the tool that a path holds.

        It is `None` if the path can hold none, or several. The path is posix, relative to the root;
        the file is not looked at.
        """
        values = self.values(path)
        if values is None or self.holds_several:
            return None
        if id_problem(*values.values()) or self.hides(path):
            return None
        return ToolId(source=self.source, category=values["category"], name=values["name"])

    def values(self, path: str) -> dict[str, str] | None:
        """Return what the path says of category and name, valid or not; `None` without a match."""
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
        """Return whether a matching path is private; names in the layout itself do not count."""
        return any(
            is_private(name)
            for part, name in zip(self.parts, path.split("/"), strict=True)
            if part.pattern
        )

    def path_of(self, category: str, name: str) -> str:
        """Return the one path at which this layout has, or could have, the tool."""
        return self.pattern.replace("{category}", category).replace("{name}", name)


def _path_part(text: str) -> PathPart:
    if not _PLACEHOLDER.search(text):
        return PathPart(text, None)
    # The shortest name that fits, and at least one character of it: "{name}.py" is not ".py".
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
"""The layouts that have a name, which is their source: besides the default ones, a module for each
tool, modules of many functions, and packages of them."""
