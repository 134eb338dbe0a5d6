"""Writing a model's answers into `capabilities.toml` without changing anything else in it."""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path
from toolindex import Lease

from pytools_hybrid.errors import refusal
from pytools_hybrid.files import newline_of, replace_file
from pytools_hybrid.index import (
    FILE_NAME,
    Capabilities,
    CapabilitiesError,
    Capability,
    parse_capabilities,
    read_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PREAMBLE = """\
# Search words for the tools in this folder, in addition to their own texts. Entries with a
# text_hash were written by `pytools-hybrid enrich`, which replaces them when the tool's text
# changes. Entries without one are yours, and are not changed.

"""
_PATIENCE_SECONDS = 10.0
_KEYS = "use_cases", "synonyms", "text_hash"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class CapabilityFile:
    """The capabilities file of one root, which people may edit while entries are added."""

    def __init__(self, root: Path) -> None:
        self.path: Path = root / FILE_NAME

    def read(self) -> Capabilities:
        """Return the current entries."""
        return parse_capabilities(read_text(self.path), self.path)

    def check(self, ids: Iterable[str]) -> None:
        """Check that entries can be added, before money is spent on them.

        Raises:
            CapabilitiesError: The file is invalid or cannot be written, or has an entry in a form
                that cannot be changed.
        """
        if self.path.is_symlink() and not self.path.exists():
            # Otherwise, a tree from elsewhere could make this create a file in any folder.
            raise CapabilitiesError(self.path, "is a broken link; remove it")
        text = read_text(self.path)
        known = parse_capabilities(text, self.path).entries
        trial = Capability(synonyms=("trial",), text_hash="trial")
        with_capabilities(text, {id_: trial for id_ in ids if id_ in known}, self.path)
        folder = Path(os.path.realpath(self.path)).parent
        try:
            # Permissions do not show whether a file system is full or read-only.
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(text.encode("utf-8"))
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def add(self, made: Mapping[str, Capability]) -> None:
        """Add entries, or replace those that a model wrote; other entries are not changed.

        The file is replaced in one step, so that a killed process leaves the old or the new
        content. Several processes change it one after the other.
        """
        lease = _lease(self.path)
        # A process that keeps the lease for longer hangs, and does not change the file.
        is_mine = lease.acquire(timeout=_PATIENCE_SECONDS)
        try:
            self._add(made)
        finally:
            if is_mine:
                lease.release()

    def _add(self, made: Mapping[str, Capability]) -> None:
        # Read before each attempt and compared at its end, because a user may be editing the file.
        while True:
            text = read_text(self.path)
            changed = with_capabilities(text, made, self.path)
            if changed == text:
                return
            if read_text(self.path) == text:
                break
        try:
            replace_file(self.path, changed.encode("utf-8"))
        except OSError as error:
            raise _cannot_write(self.path, error) from error


def with_capabilities(text: str, made: Mapping[str, Capability], path: Path) -> str:
    """Return the text of a file with entries added or replaced, and everything else unchanged.

    New entries are sorted by id among those that a model wrote; entries and comments that people
    wrote keep their place.
    """
    before = parse_capabilities(text, path).entries
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    newline = newline_of(text)
    blocks = _tables(text.removeprefix(mark))
    keys = [next(iter(tomllib.loads(block)), "") for block in blocks]
    keys[0] = ""
    expected = dict(before)
    for id_, capability in sorted(made.items()):
        known = before.get(id_)
        if known is not None and known.text_hash is None:
            continue
        expected[id_] = capability
        written = _written(capability, newline)
        if known is not None and id_ in keys:
            place = keys.index(id_)
            blocks[place] = _rewritten(blocks[place], written)
        elif known is None:
            place = _place(id_, keys, expected)
            blocks[place - 1] = _ended(blocks[place - 1], newline)
            ending = newline if place < len(blocks) else ""
            blocks.insert(place, f"[{_quoted(id_)}]{newline}{written}{ending}")
            keys.insert(place, id_)
    preamble = "" if text else _PREAMBLE
    changed = f"{mark}{preamble}{''.join(blocks)}"
    if dict(parse_capabilities(changed, path).entries) != expected:
        raise CapabilitiesError(
            path, "cannot be changed in one place only; write each id as a separate table"
        )
    return changed


def _tables(text: str) -> list[str]:
    """Split a valid document before each table and its comments; the first part may be empty."""
    blocks, above = [""], ""
    for statement in _statements(text):
        if statement.lstrip(" \t").startswith("#"):
            above += statement
            continue
        if statement.lstrip(" \t").startswith("["):
            blocks.append("")
        blocks[-1] += above + statement
        above = ""
    blocks[-1] += above
    return blocks


def _statements(text: str) -> Iterator[str]:
    """Yield the headers, pairs, comments and empty lines of a valid document.

    A statement ends where the lines so far are a valid document.
    """
    statement = ""
    for line in _LINE.findall(text):
        statement += line
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads(statement)
            yield statement
            statement = ""


def _place(id_: str, keys: list[str], entries: Mapping[str, Capability]) -> int:
    for place, key in enumerate(keys):
        if place and key > id_ and entries[key].text_hash is not None:
            return place
    return len(keys)


def _ended(block: str, newline: str) -> str:
    """End a block with an empty line, to separate it from the next table."""
    if not block or block.endswith(newline * 2):
        return block
    return f"{block}{newline}" if block.endswith(newline) else f"{block}{newline * 2}"


def _rewritten(block: str, written: str) -> str:
    """Replace a table's values, and keep comments on separate lines."""
    kept: list[str] = []
    place = None
    for statement in _statements(block):
        if tomllib.loads(statement).keys() & set(_KEYS):
            place = len(kept) if place is None else place
        else:
            kept.append(statement)
    kept.insert(len(kept) if place is None else place, written)
    return "".join(kept)


def _written(capability: Capability, newline: str) -> str:
    # One use case per line keeps diffs readable.
    cases = "".join(f"    {_quoted(text)},{newline}" for text in capability.use_cases)
    synonyms = ", ".join(map(_quoted, capability.synonyms))
    lines = [
        f"use_cases = [{newline}{cases}]" if cases else "use_cases = []",
        f"synonyms = [{synonyms}]",
    ]
    if capability.text_hash is not None:
        lines.append(f"text_hash = {_quoted(capability.text_hash)}")
    return "".join(f"{line}{newline}" for line in lines)


def _lease(path: Path) -> Lease:
    """Return the lease for changing a file; its lock file is in the cache folder."""
    folder = user_cache_path("pytools-hybrid")
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    key = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:12]
    return Lease(folder / f"{FILE_NAME}-{key}", "enrich")


def _cannot_write(path: Path, error: OSError) -> CapabilitiesError:
    return CapabilitiesError(path, f"cannot be written: {refusal(error)}")


def _quoted(text: str) -> str:
    # JSON strings are valid in TOML, except for a character that TOML requires to be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
