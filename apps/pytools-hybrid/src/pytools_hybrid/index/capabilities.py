"""`capabilities.toml`: additional search words for tools, outside their own files."""

from __future__ import annotations

import logging
import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolimport.system import read_regular_file
from toolindex import ArgumentError, ToolFilter

from pytools_hybrid.errors import PytoolsError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping
    from pathlib import Path

    from pydantic import JsonValue
    from toolindex import ToolStore

    from pytools_hybrid.settings import Roots

_log = logging.getLogger("pytools_hybrid")

FILE_NAME = "capabilities.toml"
"""The name of the file in a root."""

# The most ids in a warning.
_SHOWN = 5
_WILDCARDS = re.compile("[*?]")
_LISTS = "use_cases", "synonyms"
_MAX_BYTES = 16 << 20
# Parsing a dotted key takes time quadratic in the number of its parts.
_LONG_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*+"""
    r"""(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""",
    re.MULTILINE,
)


class CapabilitiesError(PytoolsError):
    """A capabilities file that is invalid."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """The entry of one tool, or of all tools that match a pattern.

    Attributes:
        use_cases: Requests that it is right for.
        synonyms: Words that people use for it.
        text_hash: The hash of the tool's text from which a language model wrote the entry; None if
            a person wrote it.
    """

    use_cases: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    text_hash: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that are searched."""
        return (*self.use_cases, *self.synonyms)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The content of a capabilities file.

    Attributes:
        entries: The entries by id or id pattern, in the file's order.
    """

    entries: Mapping[str, Capability] = field(default_factory=dict[str, Capability])

    def aliases(self, ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the entries by tool; tools without an entry are left out.

        A tool's own entry comes first, then those whose patterns it matches; the same words count
        once.
        """
        found = {id_: [self.entries[id_]] for id_ in ids if id_ in self.entries}
        for key, capability in self._patterns():
            for id_ in _matching(key, ids):
                if self.entries.get(id_) is not capability:
                    found.setdefault(id_, []).append(capability)
        merged = {
            id_: tuple(dict.fromkeys(text for each in matching for text in each.texts))
            for id_, matching in found.items()
        }
        return {id_: texts for id_, texts in merged.items() if texts}

    def idle(self, ids: Collection[str]) -> list[str]:
        """Return the ids and patterns that match none of some tools."""
        idle = {key: None for key in self.entries if key not in ids}
        for key, _ in self._patterns():
            if any(_matching(key, ids)):
                idle.pop(key, None)
        return list(idle)

    def _patterns(self) -> list[tuple[str, Capability]]:
        return [it for it in self.entries.items() if _WILDCARDS.search(it[0])]


def _matching(pattern: str, ids: Collection[str]) -> Iterator[str]:
    """Return the ids that match a pattern."""
    fits = ToolFilter(include=[pattern]).passes_id
    # Most ids lack the longest part of a pattern, and finding that out is twenty times as fast.
    part = max(_WILDCARDS.split(pattern), key=len)
    return (id_ for id_ in ids if part in id_ and fits(id_))


def read_text(path: Path) -> str:
    """Read a capabilities file; one that does not exist counts as empty."""
    try:
        content = read_regular_file(path, limit=_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise CapabilitiesError(path, f"cannot be read: {error.strerror or error}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CapabilitiesError(path, f"line {line} is not UTF-8; save it as UTF-8") from error


def parse_capabilities(text: str, path: Path) -> Capabilities:
    """Parse the text of a capabilities file, whose path is for error messages."""
    text = text.removeprefix("\ufeff")
    if _LONG_KEY.search(text):
        raise CapabilitiesError(path, "has a key with too many parts; put ids in quotation marks")
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CapabilitiesError(path, f"is not valid TOML: {error}") from error
    entries: dict[str, Capability] = {}
    for key, table in content.items():
        try:
            entries[key] = _capability(key, table)
        except ValueError as error:
            raise CapabilitiesError(path, f"line {_line_of(key, text)}: {error}") from error
    return Capabilities(entries)


def _capability(key: str, table: JsonValue) -> Capability:
    if not isinstance(table, dict):
        raise ValueError(f'{key!r} is not a table; write ["{key}"] and use_cases below it')
    try:
        ToolFilter(include=[key])
    except ArgumentError as error:
        raise ValueError("the id is too long") from error
    lists: dict[str, tuple[str, ...]] = {}
    for name, value in table.items():
        if name in _LISTS:
            if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
                raise ValueError(f"{name} of {key!r} is not a list of strings")
            lists[name] = tuple(stripped for text in map(str, value) if (stripped := text.strip()))
        elif name != "text_hash":
            raise ValueError(
                f"{key!r} has {name!r}, but only use_cases, synonyms and text_hash are allowed; "
                'an id stands in quotation marks, as in ["mcptools:shell:run_command"]'
            )
        elif not isinstance(value, str):
            raise ValueError(f"text_hash of {key!r} is not a string")
    text_hash = table.get("text_hash")
    return Capability(**lists, text_hash=text_hash if isinstance(text_hash, str) else None)


def _line_of(key: str, text: str) -> int:
    """Return the line of a table's header, or the first line of another value."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):
                if key in tomllib.loads(line):
                    return number
    return 1


@dataclass(slots=True)
class _Source:
    """The capabilities file of one root, as last read."""

    path: Path
    text: str | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)
    problem: str | None = None

    def read(self) -> bool:
        """Read the file again, and return whether it has changed."""
        try:
            text = read_text(self.path)
            if text == self.text and self.problem is None:
                return False
            self.text = text
            self.capabilities, self.problem = parse_capabilities(text, self.path), None
        except CapabilitiesError as error:
            if self.problem == str(error):
                return False
            self.problem = str(error)
            _log.warning("%s; its previous content still applies", error)
        return True


class Annotator:
    """Keeps the aliases in a store equal to those in the files of its roots.

    An invalid file changes nothing: the tools of its root keep their aliases. Errors in a file, and
    ids in it that no tool has, are logged once for each version of the file.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._sources = {root: _Source(root / FILE_NAME) for root in roots}
        self._done_at: Hashable = None

    def annotate(self, store: ToolStore) -> None:
        """Read the files, and update aliases that differ; the caller holds the lease for files."""
        changed = [root for root, source in self._sources.items() if source.read()]
        with store.reading() as reader:
            state = reader.state_of()
        if not changed and self._done_at == state:
            return
        aliases: dict[str, tuple[str, ...]] = {}
        keep: list[str] = []
        if any(it.problem or it.capabilities.entries for it in self._sources.values()):
            ids: dict[Path, list[str]] = {root: [] for root in self._sources}
            for entry in store.stored(reader_version="").entries.values():
                ids[self._roots.resolve(entry.path)[0]].append(entry.id)
            for root, source in self._sources.items():
                if source.problem is not None:
                    keep += ids[root]
                    continue
                aliases |= source.capabilities.aliases(ids[root])
                if root in changed and (idle := source.capabilities.idle(frozenset(ids[root]))):
                    more = f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else ""
                    shown = ", ".join(map(repr, idle[:_SHOWN])) + more
                    _log.warning("%s: no tool of this folder has the id %s", source.path, shown)
        # A change of the store is checked again the next time.
        self._done_at = None if store.annotate(aliases, keep=keep) else state
