"""A client's configuration: reading, changing and restoring it."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolimport.system import read_regular_file

from pytools_hybrid.errors import PytoolsError, refusal
from pytools_hybrid.files import discard_unfinished, replace_file
from pytools_hybrid.jobs.setup._entry import NAME, is_ours, merged
from pytools_hybrid.jobs.setup._json_text import (
    add_members,
    comments_in,
    cut_members,
    member,
    move_members,
)
from pytools_hybrid.jobs.setup._toml_text import has_block, toml_entry, with_block, without_block

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from toolimport.connect import ServerEntry

    from pytools_hybrid.jobs.setup._clients import Client

_MARK = "\ufeff"
# Some clients keep their history in the same file.
_MOST_BYTES = 256 << 20

Place = tuple[str, ...]
"""The keys that lead to an object with servers: none, or those of one of Claude Code's projects."""


class SetupError(PytoolsError):
    """A configuration that setup cannot change; nothing was written to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of a client, as read.

    Attributes:
        data: The bytes of its file; None if there is none.
        text: The decoded content, `{}` if it is empty.
    """

    client: Client
    data: bytes | None = field(repr=False)
    text: str = field(repr=False)
    content: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, client: Client) -> Configuration:
        """Read the configuration of a client."""
        data = read_file(client.file)
        text = _text(client.file, data or b"")
        content = parsed(client.file, text)
        made = cls(client=client, data=data, text=text, content=content)
        for place in made.places:
            for key in (client.section, client.aside):
                if not isinstance(_at(content, place).get(key, {}), dict):
                    raise SetupError(f"{client.file}: {key!r} must be an object")
        return made

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of servers that the client starts here, or that setup has moved."""
        moved = (it for it, project in self._projects.items() if self.client.aside in project)
        return ((), *(("projects", it) for it in dict.fromkeys((*self._current, *moved))))

    @property
    def _projects(self) -> dict[str, dict[str, Any]]:
        """The projects that have settings of their own in the file, by their folders."""
        found = self.content.get("projects") if self.client.projects else None
        projects = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        return {path: it for path, it in projects.items() if isinstance(it, dict)}

    @property
    def _current(self) -> list[str]:
        return [path for path in self._projects if Path(path) in self.client.projects]

    @property
    def is_set_up(self) -> bool:
        """Whether setup has changed the file before."""
        return has_block(self.text) if self._is_toml else self.client.aside in self.content

    @property
    def has_moved(self) -> bool:
        """Whether setup has moved servers of the client."""
        return any(_at(self.content, place).get(self.client.aside) for place in self.places)

    def servers(self) -> dict[tuple[Place, str], ServerEntry]:
        """Return the servers that the client starts here, except our own."""
        if not self.client.moves:
            return {}
        return {
            (place, entry.name): entry
            for place in ((), *(("projects", it) for it in self._current))
            for entry in self._entries(place)
            if not is_ours(entry.name, entry.definition)
        }

    def _entries(self, place: Place) -> tuple[ServerEntry, ...]:
        from toolimport import ServersFileError
        from toolimport.connect import full_path, servers_in

        disabled: list[Any] = []
        for path in self._current:
            disabled += self._projects[path].get("disabledMcpServers") or []
        content = {
            "mcpServers": _at(self.content, place).get(self.client.section, {}),
            "inputs": self.content.get("inputs"),
            "disabledMcpServers": disabled,
        }
        folder = Path(place[1]) if place else None
        try:
            return servers_in(content, full_path(self.client.file), folder)
        except ServersFileError as error:
            raise SetupError(str(error)) from None

    def edited(self, moved: Collection[tuple[Place, str]], entry: dict[str, Any]) -> str:
        """Return the text with our entry, and with servers moved to an ignored key.

        Raises:
            SetupError: Something in the file would be lost; the error shows the entry to add.
        """
        if self._is_toml:
            return self._edited_toml(entry)
        section, aside = self.client.section, self.client.aside
        there: Mapping[str, Any] = self.content.get(section, {})
        name = self._own_name([it for place, it in moved if not place])
        if name in there and is_ours(name, there[name]):
            entry = merged(entry, there[name])
        is_there = there.get(name) == entry
        if is_there and not moved:
            return self.text
        text, expected = self.text, deepcopy(dict(self.content))
        lost: Counter[str] = Counter()
        for place in self.places:
            names = {it for at, it in moved if at == place}
            gone = names if place or (is_there and self.is_set_up) else {*names, name}
            text, old = cut_members(text, (*place, aside), names)
            text, cut = cut_members(text, (*place, section), gone)
            if not place and self.is_set_up and name not in names:
                # Setup wrote this entry, so it is not kept with the client's own servers.
                old = (*old, *(it for it in cut if it.key == name))
                cut = tuple(it for it in cut if it.key != name)
            lost += Counter(it for each in old for it in comments_in(each.text))
            servers, kept = (_at(expected, place).get(key, {}) for key in (section, aside))
            kept |= {it.key: servers[it.key] for it in cut}
            for key in gone & servers.keys():
                del servers[key]
            if name in gone and not place:
                text = add_members(text, (section,), [member(name, entry, text, 2)])
                servers[name] = entry
            if not place or cut:
                _at(expected, place).update({section: servers, aside: kept})
                if aside not in _at(self.content, place):
                    text = add_members(text, place, [f'"{aside}": {{}}'])
            text = add_members(text, (*place, aside), [it.text for it in cut])
        is_kept = Counter(comments_in(text)) == Counter(comments_in(self.text)) - lost
        if not is_kept or _parsed_or_none(self.client.file, text) != expected:
            raise self._refused(json.dumps({section: {name: entry}}, indent=2))
        return text

    def restored(self) -> bytes | None:
        """Return the content of the file without the changes by setup; None if there was no file.

        Changes that were made since setup are kept.

        Raises:
            SetupError: Something in the file would be lost.
        """
        if not self.is_set_up:
            return self.data
        text = without_block(self.text) if self._is_toml else self._restored_json()
        with suppress(SetupError):
            before = read_file(self.client.backup)
            if self._is_same(text, _text(self.client.file, before or b"")):
                return before
        return text.encode("utf-8")

    def write(self, text: str) -> bool:
        """Write a new text and a backup of the old one; return whether that changed anything."""
        if self.data is not None and text == self.text:
            return False
        before, kept = self.restored(), read_file(self.client.backup)
        if before != kept:
            if kept is not None and not self.is_set_up:
                self._put_by()
            if before is not None:
                self._replace(self.client.backup, before)
        self._replace(self.client.file, text.encode("utf-8"))
        return True

    def undo(self) -> str:
        """Undo setup; return what happened to the file."""
        self.discard_unfinished()
        backup = self.client.backup
        before, kept = self.restored(), read_file(backup)
        if self.is_set_up and before is None:
            self._check_unchanged()
            Path(os.path.realpath(self.client.file)).unlink()
            return "removed, because there was none before"
        if self.is_set_up and before is not None:
            self._replace(self.client.file, before)
        if kept is not None and before == kept:
            # Also if a run was killed before it changed the file, or after it restored it.
            backup.unlink()
            return "restored"
        done = "nothing to undo"
        if self.is_set_up:
            done = "changed since setup; only the changes made by setup were undone"
        return done if kept is None else f"{done}; {backup} is a copy from before setup"

    def discard_unfinished(self) -> None:
        """Remove files left behind by a killed run."""
        discard_unfinished(self.client.file)
        discard_unfinished(self.client.backup)

    @property
    def _is_toml(self) -> bool:
        return self.client.file.suffix == ".toml"

    def _own_name(self, moved: Collection[str] = ()) -> str:
        """Return the name of our entry, existing or new."""
        there: Mapping[str, Any] = self.content.get(self.client.section, {})
        aside: Mapping[str, Any] = self.content.get(self.client.aside, {})
        other = f"{NAME}-hybrid"
        replaced = (name for name, it in aside.items() if is_ours(name, it))
        for name in (*replaced, NAME, other, *there):
            if name in there and is_ours(name, there[name]):
                return name
        is_taken = NAME in there and NAME not in moved and self.client.moves
        return other if is_taken else NAME

    def _edited_toml(self, entry: dict[str, Any]) -> str:
        block = toml_entry(NAME, entry)
        text = with_block(self.text, block)
        expected = parsed(self.client.file, without_block(self.text))
        try:
            servers = expected.setdefault("agent", {}).setdefault("mcp_servers", {})
            is_free = NAME not in servers
            servers[NAME] = entry
        except (AttributeError, TypeError):
            is_free = False
        if not is_free or _parsed_or_none(self.client.file, text) != expected:
            raise self._refused(block)
        return text

    def _restored_json(self) -> str:
        section, aside = self.client.section, self.client.aside
        text, expected = self.text, deepcopy(dict(self.content))
        own = self._own_name()
        lost: Counter[str] = Counter()
        for place in self.places:
            here = _at(expected, place)
            if aside not in here:
                continue
            there = cast("dict[str, Any]", here.get(section, {}))
            left = {k: v for k, v in there.items() if place or k != own or not is_ours(k, v)}
            text, cut = cut_members(text, (*place, section), there.keys() - left.keys())
            # Servers that the user has put back are kept.
            text, old = cut_members(text, (*place, aside), left)
            text = move_members(text, place, aside, section)
            here[section] = here.pop(aside) | left
            lost += Counter(it for each in (*cut, *old) for it in comments_in(each.text))
        is_kept = not Counter(comments_in(self.text)) - Counter(comments_in(text)) - lost
        found = _parsed_or_none(self.client.file, text) or {}
        if not is_kept or self._comparable(found) != self._comparable(expected):
            raise SetupError(
                f"{self.client.file}: setup cannot be undone without losing something in it; move "
                f"the servers under {aside!r} back to {section!r} yourself, and remove {NAME!r} "
                "there"
            )
        return text

    def _is_same(self, text: str, before: str) -> bool:
        """Return whether two texts are equal except for white space and order."""
        if self._is_toml:
            return text.strip() == before.strip()
        now, was = (self._comparable(parsed(self.client.file, it)) for it in (text, before))
        return now == was and comments_in(text) == comments_in(before)

    def _comparable(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in content.items() if k != self.client.section or v}

    def _refused(self, entry: str) -> SetupError:
        return SetupError(
            f"{self.client.file} cannot be changed without losing something in it; add this "
            f"yourself, and remove the servers that {self.client.title} should use through it:\n"
            f"{entry}"
        )

    def _put_by(self) -> None:
        """Rename a backup of an earlier file."""
        names = (self.client.backup.with_name(f"{self.client.backup.name}-{it}") for it in count(2))
        with suppress(FileNotFoundError):
            self.client.backup.rename(next(it for it in names if not os.path.lexists(it)))

    def _check_unchanged(self) -> None:
        if read_file(self.client.file) != self.data:
            raise SetupError(f"{self.client.file} was changed in the meantime; run setup again")

    def _replace(self, path: Path, content: bytes) -> None:
        self._check_unchanged()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = None if self.data is None else stat.S_IMODE(self.client.file.stat().st_mode)
            replace_file(path, content, mode=mode)
        except OSError as error:
            raise SetupError(f"{path} cannot be written: {refusal(error)}") from error


def _at(content: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the object that a place leads to."""
    return reduce(getitem, place, cast("dict[str, Any]", content))


def read_file(path: Path) -> bytes | None:
    """Read a file that is going to be written; return None if there is none."""
    try:
        data = read_regular_file(path, limit=_MOST_BYTES)
        is_writable = path.stat().st_mode & stat.S_IWUSR and os.access(path, os.W_OK)
    except FileNotFoundError:
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not target.parent.is_dir():
            raise SetupError(
                f"{path} is a link to {target}, whose folder does not exist; create the folder, or "
                "remove the link"
            ) from None
        return None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {refusal(error)}") from error
    if not is_writable:
        raise SetupError(f"{path} is read-only; make it writable (chmod u+w), and run setup again")
    return data


def decoded(path: Path, data: bytes) -> str:
    """Decode the content of a file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} is not UTF-8 text; save it as UTF-8") from error


def _text(path: Path, data: bytes) -> str:
    """Decode a configuration; a blank one counts as empty."""
    text = decoded(path, data)
    return text if text.removeprefix(_MARK).strip() or path.suffix == ".toml" else "{}\n"


def parsed(path: Path, text: str) -> dict[str, Any]:
    """Parse a configuration, as TOML if the file's name ends in .toml."""
    from toolimport import ServersFileError
    from toolimport.connect import parse_json

    try:
        if path.suffix == ".toml":
            return tomllib.loads(text.removeprefix(_MARK))
        content = parse_json(text.removeprefix(_MARK), path)
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path} is invalid TOML: {error}") from None
    except ServersFileError as error:
        raise SetupError(str(error)) from None
    if not isinstance(content, dict):
        raise SetupError(f"{path} must contain a JSON object")
    return content


def _parsed_or_none(path: Path, text: str) -> dict[str, Any] | None:
    with suppress(SetupError):
        return parsed(path, text)
    return None
