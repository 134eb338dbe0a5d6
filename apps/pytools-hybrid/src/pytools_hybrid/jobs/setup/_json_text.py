"""Editing members of JSON objects in a text, preserving comments and formatting."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from pytools_hybrid.files import newline_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL
)
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    key: str
    start: int
    value: int
    end: int
    comma: int | None


@dataclass(slots=True, kw_only=True)
class _Object:
    """The position of an object in a text; `end` is that of its closing bracket."""

    end: int = 0
    members: list[_Member] = field(default_factory=list[_Member])

    def member(self, key: str) -> _Member | None:
        return next((it for it in self.members if it.key == key), None)


class Cut(NamedTuple):
    """A member that was removed.

    Attributes:
        key: Its key.
        value: The text of its value.
        text: The text from its key to the comma, including comments.
    """

    key: str
    value: str
    text: str


def cut_members(
    text: str, path: Sequence[str], names: Collection[str]
) -> tuple[str, tuple[Cut, ...]]:
    """Remove members from an object.

    Args:
        text: A valid document, which may have comments and trailing commas.
        path: The keys that lead to the object.
        names: The members; missing ones are ignored.

    Returns:
        The text without them, and the members.
    """
    found = _find(text, path)
    if found is None:
        return text, ()
    cut = [it for it in found.members if it.key in names]
    kept = [it for it in found.members if it.key not in names]
    spans = [_span(text, it) for it in cut]
    last = found.members[-1] if found.members else None
    if kept and last in cut and last.comma is None and kept[-1].comma is not None:
        # The comma after the last remaining member is removed too.
        spans.append((kept[-1].comma, kept[-1].comma + 1))
    made = [Cut(it.key, text[it.value : it.end], _member_text(text, it)) for it in cut]
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return text, tuple(made)


def add_members(text: str, path: Sequence[str], members: Sequence[str]) -> str:
    """Add members, as texts, at the end of an object, which is created if it is missing."""
    if not members:
        return text
    if _find(text, path) is None:
        text = add_members(text, path[:-1], [f"{_quoted(path[-1])}: {{}}"])
    inner = newline_of(text) + _indent_of(text) * (len(path) + 1)
    return _with_inner(text, path, f",{inner}".join(members))


def member(key: str, value: object, text: str, depth: int) -> str:
    """Return the text of a new member, indented for a depth of a document."""
    made = json.dumps(value, indent=_indent_of(text), ensure_ascii=False)
    indented = made.replace("\n", newline_of(text) + _indent_of(text) * depth)
    return f"{_quoted(key)}: {indented}"


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _member_text(text: str, member: _Member) -> str:
    made = text[member.start : member.end if member.comma is None else member.comma].rstrip()
    comments = [it for it in _TOKEN.finditer(made) if it["comment"] is not None]
    last = comments[-1] if comments else None
    is_open = last is not None and last.end() == len(made) and last[0].startswith("//")
    return made + newline_of(text) if is_open else made


def _with_inner(text: str, path: Sequence[str], added: str, *, has_members: bool = True) -> str:
    """Add to the text between the brackets of an existing object."""
    found = cast("_Object", _find(text, path))
    newline, unit = newline_of(text), _indent_of(text)
    inner = newline + unit * (len(path) + 1)
    content = text[: found.end].rstrip()
    # Add a new line, because the current one may end with a comment.
    after = text[len(content) :]
    if not after[: found.end - len(content)].strip(" \t"):
        after = newline + unit * len(path) + text[found.end :]
    if has_members and found.members and found.members[-1].comma is None:
        end = found.members[-1].end
        content = f"{content[:end]},{content[end:]}"
    return f"{content}{inner}{added}{after}"


def move_members(text: str, place: Sequence[str], source: str, target: str) -> str:
    """Move the content of one member of an object to the end of another, with its comments."""
    text, (cut,) = cut_members(text, place, {source})
    inner = cut.value[1:-1]
    if not inner.strip():
        return text
    path = (*place, target)
    if _find(text, path) is None:
        text = add_members(text, place, [f"{_quoted(target)}: {{}}"])
    has_members = bool(_object(cut.value, 0).members)
    return _with_inner(text, path, inner.strip(), has_members=has_members)


def comments_in(text: str) -> list[str]:
    """Return the comments in a document, sorted."""
    found = (it["comment"] for it in _TOKEN.finditer(text))
    return sorted(it.rstrip() for it in found if it is not None)


def _indent_of(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _span(text: str, member: _Member) -> tuple[int, int]:
    """Return the span of a member with its comma, and whole lines if nothing else is on them."""
    start, end = member.start, member.end if member.comma is None else member.comma + 1
    before = text[:start].rstrip(" \t")
    after = text[end:].lstrip(" \t")
    if before.endswith("\n") and after.startswith(("\n", "\r\n")):
        return len(before), len(text) - len(after) + after.index("\n") + 1
    return start, end


def _find(text: str, path: Sequence[str]) -> _Object | None:
    start = next(it.start() for it in _tokens(text, 0))
    found = _object(text, start)
    for key in path:
        member = found.member(key)
        if member is None:
            return None
        found = _object(text, member.value)
    return found


def _tokens(text: str, start: int) -> Iterator[re.Match[str]]:
    return (it for it in _TOKEN.finditer(text, start) if it["comment"] is None)


def _object(text: str, start: int) -> _Object:
    made = _Object()
    depth = 0
    key: re.Match[str] | None = None
    value = end = -1

    def close(comma: int | None) -> None:
        if key is not None:
            name: str = json.loads(key[0])
            made.members.append(
                _Member(key=name, start=key.start(), value=value, end=end, comma=comma)
            )

    for token in _tokens(text, start):
        mark = token[0]
        if mark in "}]":
            depth -= 1
            if depth == 0:
                close(None)
                made.end = token.start()
                break
        if depth == 1 and mark == ",":
            close(token.start())
            key, value = None, -1
        elif depth == 1 and key is None:
            key = token
        elif depth >= 1 and not (depth == 1 and mark == ":" and value < 0):
            value = token.start() if value < 0 else value
            end = token.end()
        if mark in "{[":
            depth += 1
    return made
