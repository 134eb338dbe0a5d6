"""Deprecation notices in the texts of tools."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolindex import ToolEntry

_NOTICE_CHARACTERS = 200
_WORD = re.compile(r"[^\W_]+")
# Where a statement may begin.
_START = r"(?:\A|\n\s{0,40}|[.!?;:,(\[{*>–—]\s{0,3}|\s-\s{1,3})[^\w\n(.@:]{0,9}"
# What follows "deprecated" if it describes the tool, rather than what the tool works on.
_END = (
    r"(?:(?=\s*(?:$|\n|[.:;,!)\]}*_–—]|-\s))|\s+(?:since|as|in|from|and|but|by|use|please|starting|"
    r"with|prefer|soon|v?\d[\w.]*|(?:alias|wrapper|tool|function|method|command|endpoint|variant|"
    r"version|name|form)(?=\s+(?:of|for)\b|\s*(?:$|\n|[.:;,!)\]–—])))(?!\w))"
)
_STATEMENT = re.compile(
    rf"""
    {_START}(?P<directive>\.\.\s+deprecated\s*::|[@:\\]deprecated\b:?)
    |{_START}(?:(?:now|soon|officially|note|warning|status)\b\W*)?(?P<label>deprecated\b{_END})
    # In capitals it is a label, whatever follows.
    |{_START}(?P<capitals>(?-i:DEPRECATED)\b)
    |(?P<favour>\bdeprecated\s+in\s+favou?r\s+of\b)
    |(?P<subject>\b(?:this|it|the)\b(?:[ ]\S+){{0,4}}?|[`'"]?(?P<name>\w[\w.-]*)[`'"]?)
    \s+(?:is|was|has\s+been|will\s+be|got|are)\s+(?:(?!not?\b|never\b)\w+\s+){{0,2}}?
    deprecated\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# What surrounds the word, marked by a NUL, if it is one of several values.
_ITEM = re.compile(
    r"""
    [,(\[{:]\s*\W?\0\W?\s*,
    (?!\s*(?:please|use|prefer|see|call|will|since|as|in|from|by|do|no|replaced|and|but)\b)
    |[,:]\s*\W?\w+\W?\s*,\s*\W?\w+\W?\s*,\s*\W?\0
    |\n[^\S\n]*[-*+•]\s+\W?\0\W?[^\S\n]*(?:\n|\Z)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_AROUND = 80
_SUBJECTS = frozenset({"tool", "function", "method", "command", "endpoint", "action", "operation"})
_CONDITIONS = frozenset({"if", "whether", "when", "unless", "that", "which", "where", "because"})
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n\s*\n|\Z")
_CLOSING = re.compile(r"deprecated[)\]}*_]+", re.IGNORECASE)
_ADVICE = re.compile(r"\s*(?:please\s+)?(?:use|prefer|call|see|switch|migrate)\b", re.IGNORECASE)
# With one of these, a name that ends with "deprecated" describes what the tool does.
_ABOUT = frozenset({"are", "check", "flag", "has", "is", "make", "mark", "set", "tag"})


def deprecation(entry: ToolEntry) -> str:
    """Return a tool's deprecation notice; empty if there is none.

    A tool that works on deprecated things, or has a deprecated parameter, is not deprecated.
    """
    names = tuple(name for p in entry.parameters for name in {p.name, p.alias or p.name})
    return _deprecation(entry.id.name, entry.description, names)


def with_notice(notice: str, text: str) -> str:
    """Return a tool's text with the notice first, because many clients show only the beginning."""
    if "deprecated" in text[: len(notice) + 20].lower():
        return text
    return f"{notice} {text}"


@lru_cache(maxsize=1 << 10)
def _deprecation(name: str, description: str, parameters: tuple[str, ...]) -> str:
    if "deprecated" not in f"{name} {description}".lower():
        return ""
    text = "\n".join(_without_parameters(description, parameters))
    for found in _STATEMENT.finditer(text):
        if _is_about_tool(found, text, name):
            return _notice(text, found)
    return "Deprecated." if _is_named_so(_WORD.findall(name.lower())) else ""


def _is_named_so(words: list[str]) -> bool:
    if len(words) < 3:
        return False
    # "deprecated_endpoints_list" is about endpoints.
    is_first = words[0] == "deprecated" and not words[1].endswith("s")
    return is_first or (words[-1] == "deprecated" and words[0] not in _ABOUT)


def _without_parameters(description: str, parameters: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a docstring that are not about a parameter."""
    names = "|".join(map(re.escape, parameters))
    about = re.compile(rf"\s*(?::\w+\s[^:]*:|[-*]?\s*`*(?:{names})`*\s*(?:\([^)]*\))?\s*[:–—-])")
    depth: int | None = None
    for line in description.splitlines():
        indent = len(line) - len(line.lstrip())
        if parameters and about.match(line):
            depth = indent
        elif depth is not None and line.strip() and indent <= depth:
            depth = None
        if depth is None:
            yield line


def _is_about_tool(found: re.Match[str], text: str, name: str) -> bool:
    subject = found["subject"]
    if subject is None:
        return not _is_item(found, text)
    before = text[: found.start()].lower().split()[-2:]
    # "Note that this tool is" is no condition.
    if before and before[0] != "note" and before[-1].strip("`'\"(,") in _CONDITIONS:
        return False
    if found["name"] and subject.lower() not in {"this", "it"}:
        return found["name"].lower() == name.lower()
    first, *words = subject.lower().split()
    # "This search tool is deprecated" is about the tool, "this API token is deprecated" is not.
    return words[-1] in _SUBJECTS if words else first != "the"


def _is_item(found: re.Match[str], text: str) -> bool:
    """Return whether the word is one of several values, as in "active, deprecated, removed"."""
    kind = "label" if found["label"] else "capitals"
    start, end = found.start(kind), found.start(kind) + len("deprecated")
    around = f"{text[max(0, start - _AROUND) : start]}\0{text[end : end + _AROUND]}"
    return found[kind] is not None and _ITEM.search(around) is not None


def _notice(text: str, found: re.Match[str]) -> str:
    kinds = ("directive", "label", "capitals", "favour", "subject")
    kind = next(kind for kind in kinds if found[kind])
    end = _first_end(text, found.end())
    if advice := _ADVICE.match(text, end):
        end = _first_end(text, advice.end())
    notice = text[found.start(kind) : end]
    if kind == "directive":
        notice = f"Deprecated: {text[found.end(kind) : end]}"
    notice = " ".join(_CLOSING.sub("deprecated", notice, count=1).split()).rstrip(" .:)]}*_-–—")
    if len(notice) > _NOTICE_CHARACTERS:
        notice = notice[:_NOTICE_CHARACTERS].rpartition(" ")[0] + "…"
    return notice[:1].upper() + notice[1:] + ("" if notice[-1:] in "!?…" else ".")


def replacements(id_: str, notice: str) -> frozenset[str]:
    """Return the ids that tools of the same server have, if a notice names them."""
    server = id_.rpartition(":")[0]
    return frozenset(f"{server}:{name}" for name in re.findall(r"\w[\w.-]*\w", notice))


def _first_end(text: str, start: int) -> int:
    end = _SENTENCE_END.search(text, start)
    return len(text) if end is None else end.end()
