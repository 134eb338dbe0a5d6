"""The texts of configuration files: JSON with comments, TOML and YAML."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from toolimport._errors import ServersFileError
from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from pydantic import JsonValue

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_COMMENTS = re.compile(f"({_STRING})|({_COMMENT})", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[\]}}])", re.DOTALL)
# How much aliases may add to a YAML text: ten lines of them could fill any memory.
_MOST_REPEATED = 1 << 20
_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL
)
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


def read_file(file: Path) -> JsonValue:
    """Read a configuration file in the format of its suffix; errors have the position."""
    try:
        text = read_regular_file(file).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ServersFileError(
            file, "does not exist; give the file in which an MCP client configures its servers"
        ) from error
    except OSError as error:
        raise ServersFileError(file, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ServersFileError(
            file, f"is not UTF-8 text: {error.reason}; save it as UTF-8"
        ) from error
    return parse(text, file)


def parse(text: str, file: Path) -> JsonValue:
    """Parse the text of a file in the format of its suffix; errors show none of it."""
    match file.suffix.lower():
        case ".toml":
            kind, loads = "TOML", tomllib.loads
        case ".yaml" | ".yml":
            kind, loads = "YAML", _yaml_loader(file)
        case _:
            return _parse_json(text, file)
    try:
        # Dates become texts, as in JSON.
        plain: JsonValue = json.loads(json.dumps(loads(text), default=str))
    except (ValueError, TypeError, RecursionError) as error:
        reason = f": {error}" if kind == "TOML" else ""
        raise ServersFileError(file, f"is not valid {kind}{reason}") from None
    return plain


def _yaml_loader(file: Path) -> Callable[[str], Any]:
    """Return what reads YAML 1.2, as clients do; in 1.1, `yes` is true and 22:22 a number."""
    try:
        import yaml
    except ImportError:
        raise ServersFileError(file, "is YAML; install PyYAML to read it") from None

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}  # noqa: RUF012 - as in the base class

    for tag, pattern, first in (
        ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", "[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("merge", "<<", "<"),
    ):
        cast("Any", Loader).add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), [*first]
        )

    def loads(text: str) -> Any:  # noqa: ANN401 - any JSON
        loader: Any = Loader(text)
        try:
            node = loader.get_single_node()
            if node is not None and _length(node, {}) > len(text) + _MOST_REPEATED:
                raise ValueError("its aliases repeat too much")
            return node and loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark, problem = error.problem_mark, f"is not valid YAML here: {error.problem}"
            if mark is None:
                raise ServersFileError(file, problem) from None
            line, column = mark.line + 1, mark.column + 1
            raise ServersFileError(file, problem, line=line, column=column) from None
        except yaml.YAMLError:
            raise ValueError from None
        finally:
            loader.dispose()

    return loads


def _length(node: Any, known: dict[Any, int]) -> int:  # noqa: ANN401 - a node of YAML
    """Return the length of a node with its aliases written out; refuse a key that it has twice."""
    from yaml.constructor import ConstructorError

    if node not in known:
        known[node] = 0
        inner: list[Any] = node.value if node.id == "sequence" else []
        if node.id == "mapping":
            keys = set[str]()
            for key, value in node.value:
                if key.id == "scalar" and key.value in keys:
                    problem = f"found {key.value!r} twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                keys.add(str(key.value))
                inner += key, value
        own = len(node.value) if node.id == "scalar" else 0
        known[node] = 1 + own + sum(_length(it, known) for it in inner)
    return known[node]


def _parse_json(text: str, file: Path) -> JsonValue:
    """Parse JSON that may have comments and trailing commas."""

    def blank(found: re.Match[str]) -> str:
        # Positions stay the same.
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        # Of duplicate keys with different values, one would be lost silently.
        made: dict[str, object] = {}
        for name, value in pairs:
            if made.setdefault(name, value) != value:
                raise ValueError(f"it has {name!r} twice in one object; rename one")
        return made

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not a JSON number")

    plain = _TRAILING.sub(blank, _COMMENTS.sub(blank, text))
    try:
        content: JsonValue = json.loads(plain, parse_constant=refuse, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        # Without the cause, whose `doc` is the whole text.
        raise ServersFileError(
            file, f"is not valid JSON here: {error.msg}", line=error.lineno, column=error.colno
        ) from None
    except (ValueError, RecursionError) as error:
        raise ServersFileError(file, f"is not valid JSON: {error}") from None
    return content


class _Member(NamedTuple):
    """The positions of a member of an object: of its key, value, end and comma."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


class Cut(NamedTuple):
    """A member that was removed: its key, its value, and all of it with comments, as texts."""

    key: str
    value: str
    text: str


def cut_members(
    text: str, path: Sequence[str], names: Collection[str]
) -> tuple[str, tuple[Cut, ...]]:
    """Remove members from the object that a path of keys leads to; missing ones are ignored.

    The text is a valid document, which may have comments and trailing commas. It is returned
    without the members, and with them.
    """
    found = _find(text, path)
    if found is None:
        return text, ()
    members, _ = found
    cut = [it for it in members if it.key in names]
    kept = [it for it in members if it.key not in names]
    spans = [_span(text, it) for it in cut]
    if kept and cut[-1:] == members[-1:] and cut[-1].comma is None and kept[-1].comma is not None:
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
        text = add_members(text, path[:-1], [f"{quoted(path[-1])}: {{}}"])
    inner = _newline_of(text) + _indent_of(text) * (len(path) + 1)
    return _with_inner(text, path, f",{inner}".join(members))


def member(key: str, value: object, text: str, depth: int) -> str:
    """Return the text of a new member, indented for a depth of a document."""
    made = json.dumps(value, indent=_indent_of(text), ensure_ascii=False)
    indented = made.replace("\n", _newline_of(text) + _indent_of(text) * depth)
    return f"{quoted(key)}: {indented}"


def quoted(text: str) -> str:
    """Return a text as a string of JSON, which is one of TOML too."""
    return json.dumps(text, ensure_ascii=False)


def _member_text(text: str, member: _Member) -> str:
    made = text[member.start : member.end if member.comma is None else member.comma].rstrip()
    comments = [it for it in _TOKEN.finditer(made) if it["comment"] is not None]
    last = comments[-1] if comments else None
    is_open = last is not None and last.end() == len(made) and last[0].startswith("//")
    return made + _newline_of(text) if is_open else made


def _with_inner(text: str, path: Sequence[str], added: str, *, has_members: bool = True) -> str:
    """Add to the text between the brackets of an existing object."""
    members, closing = cast("tuple[list[_Member], int]", _find(text, path))
    newline, unit = _newline_of(text), _indent_of(text)
    inner = newline + unit * (len(path) + 1)
    content = text[:closing].rstrip()
    # Add a new line, because the current one may end with a comment.
    after = text[len(content) :]
    if not after[: closing - len(content)].strip(" \t"):
        after = newline + unit * len(path) + text[closing:]
    if has_members and members and members[-1].comma is None:
        end = members[-1].end
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
        text = add_members(text, place, [f"{quoted(target)}: {{}}"])
    members, _ = _object(cut.value, 0)
    return _with_inner(text, path, inner.strip(), has_members=bool(members))


def comments_in(text: str) -> list[str]:
    """Return the comments in a document, sorted."""
    found = (it["comment"] for it in _TOKEN.finditer(text))
    return sorted(it.rstrip() for it in found if it is not None)


def _newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


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


def _tokens(text: str, start: int) -> Iterator[re.Match[str]]:
    return (it for it in _TOKEN.finditer(text, start) if it["comment"] is None)


def _find(text: str, path: Sequence[str]) -> tuple[list[_Member], int] | None:
    """Return the members of the object that some keys lead to, and where it ends."""
    found = _object(text, next(_tokens(text, 0)).start())
    for key in path:
        member = next((it for it in found[0] if it.key == key), None)
        if member is None:
            return None
        found = _object(text, member.value)
    return found


def _object(text: str, start: int) -> tuple[list[_Member], int]:
    members: list[_Member] = []
    depth = 0
    key: re.Match[str] | None = None
    value = end = -1
    for token in _tokens(text, start):
        mark = token[0]
        depth -= mark in "}]"
        is_end = depth == 0 and mark in "}]"
        if is_end or (depth == 1 and mark == ","):
            if key is not None:
                comma = None if is_end else token.start()
                members.append(_Member(json.loads(key[0]), key.start(), value, end, comma))
            if is_end:
                return members, token.start()
            key, value = None, -1
        elif depth == 1 and key is None:
            key = token
        elif depth >= 1 and not (depth == 1 and mark == ":" and value < 0):
            value = token.start() if value < 0 else value
            end = token.end()
        depth += mark in "{["
    return members, len(text)
