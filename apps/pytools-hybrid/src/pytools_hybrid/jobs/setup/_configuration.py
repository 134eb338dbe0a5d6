"""A client's configuration: what is in it, what setup makes of it, and the way back."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pytools_hybrid.errors import PytoolsError, refusal
from pytools_hybrid.files import replace_file
from pytools_hybrid.jobs.setup._entry import NAME, is_ours, merged
from pytools_hybrid.jobs.setup._json_text import add_members, cut_members, value_text
from pytools_hybrid.jobs.setup._toml_text import has_block, toml_entry, with_block, without_block

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from toolimport.connect import ServerEntry

    from pytools_hybrid.jobs.setup._clients import Client

_MARK = "\ufeff"
_BACKUP = ".before-pytools"


class SetupError(PytoolsError):
    """A configuration that setup cannot change; nothing was written to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of a client as it was read.

    Attributes:
        client: The client.
        data: The bytes of its file; None where there is none.
        text: The same as text, `{}` where there is nothing.
        content: The same, parsed.
    """

    client: Client
    data: bytes | None = field(repr=False)
    text: str = field(repr=False)
    content: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, client: Client) -> Configuration:
        """Read it.

        Raises:
            SetupError: It cannot be read, is invalid, or must not be written.
        """
        data = read_file(client.file)
        text = _text(client.file, data or b"")
        content = parsed(client.file, text)
        for key in (client.section, client.aside):
            if not isinstance(content.get(key, {}), dict):
                raise SetupError(f"{client.file}: {key!r} must be an object")
        return cls(client=client, data=data, text=text, content=content)

    @property
    def is_set_up(self) -> bool:
        """Whether setup has changed it before."""
        return has_block(self.text) if self._is_toml else self.client.aside in self.content

    @property
    def backup(self) -> Path:
        """Where the file lies as it was before setup."""
        return self.client.file.with_name(self.client.file.name + _BACKUP)

    def servers(self) -> tuple[ServerEntry, ...]:
        """Return the servers that it starts, except our own.

        Raises:
            SetupError: One is not an object.
        """
        if not self.client.moves:
            return ()
        others = (it for it in self._entries(self.client.section) if not it.disabled)
        return tuple(it for it in others if not is_ours(it.name, it.definition))

    def all_servers(self) -> tuple[ServerEntry, ...]:
        """Return every server in it, also those that it does not start.

        Raises:
            SetupError: One is not an object.
        """
        return self._entries(self.client.section) + self._entries(self.client.aside)

    def _entries(self, key: str) -> tuple[ServerEntry, ...]:
        from toolimport import ServersFileError
        from toolimport.connect import full_path, servers_in

        content = {"mcpServers": self.content.get(key, {}), "inputs": self.content.get("inputs")}
        try:
            return servers_in(content, full_path(self.client.file))
        except ServersFileError as error:
            raise SetupError(str(error)) from None

    def edited(self, moved: Collection[str], entry: dict[str, Any]) -> str:
        """Return the text with our entry, and with servers moved to where they are not started.

        Args:
            moved: Their names.
            entry: Our entry.

        Raises:
            SetupError: It cannot be done without losing something; the error shows the entry.
        """
        if self._is_toml:
            return self._edited_toml(entry)
        section, aside = self.client.section, self.client.aside
        there: Mapping[str, Any] = self.content.get(section, {})
        name = self._own_name(there, moved)
        if name in there and is_ours(name, there[name]):
            entry = merged(entry, there[name])
        gone = {*moved} if there.get(name) == entry else {*moved, name}
        text, _ = cut_members(self.text, (aside,), gone)
        text, values = cut_members(text, (section,), gone)
        if self.is_set_up and name not in moved:
            # It is the one that setup has written.
            values.pop(name, None)
        if name in gone:
            text = add_members(text, (section,), {name: value_text(entry, text, 2)})
        if not self.is_set_up:
            text = add_members(text, (), {aside: "{}"})
        text = add_members(text, (aside,), values)
        expected = dict(self.content)
        expected[section] = {k: v for k, v in there.items() if k not in gone} | {name: entry}
        kept = {k: v for k, v in self.content.get(aside, {}).items() if k not in gone}
        expected[aside] = kept | {k: there[k] for k in values}
        if _parsed_or_none(self.client.file, text) != expected:
            raise self._refused(json.dumps({section: {name: entry}}, indent=2))
        return text

    def restored(self) -> bytes | None:
        """Return the file as it was before setup; None where there was none.

        What has changed in it since stays: then only what setup did is taken back.

        Raises:
            SetupError: What setup did cannot be taken back without losing something.
        """
        if not self.is_set_up:
            return self.data
        text = without_block(self.text) if self._is_toml else self._restored_json()
        left = self._comparable(parsed(self.client.file, text))
        with suppress(SetupError):
            before = read_file(self.backup)
            if before is None and not left:
                return None
            if before is not None:
                was = parsed(self.client.file, _text(self.client.file, before))
                if self._comparable(was) == left:
                    return before
        return text.encode("utf-8")

    def write(self, text: str) -> bool:
        """Write a new text, the old one beside it; return whether that changed anything.

        Raises:
            SetupError: It cannot be written, or somebody else has changed it meanwhile.
        """
        if self.data is not None and text == self.text:
            return False
        before = self.restored()
        if before is not None and before != read_file(self.backup):
            self._replace(self.backup, before)
        self._replace(self.client.file, text.encode("utf-8"))
        return True

    def undo(self) -> str:
        """Take back what setup did; return what became of the file, "" where nothing was to do.

        Raises:
            SetupError: It cannot be written, or somebody else has changed it meanwhile.
        """
        if not self.is_set_up:
            return ""
        before, backup = self.restored(), read_file(self.backup)
        if before is None:
            self._check_unchanged()
            self.client.file.unlink()
            return "removed, for there was none before"
        self._replace(self.client.file, before)
        if before != backup:
            return f"has been changed since; only what setup did was taken back ({self.backup})"
        self.backup.unlink()
        return "as it was before"

    @property
    def _is_toml(self) -> bool:
        return self.client.file.suffix == ".toml"

    def _own_name(self, there: Mapping[str, Any], moved: Collection[str]) -> str:
        for name, definition in there.items():
            if is_ours(name, definition):
                return name
        is_taken = NAME in there and NAME not in moved and self.client.moves
        return f"{NAME}-hybrid" if is_taken else NAME

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
        text, there = self.text, cast("dict[str, Any]", self.content.get(section, {}))
        own = [name for name, it in there.items() if is_ours(name, it)][:1]
        text, _ = cut_members(text, (section,), own)
        text, values = cut_members(text, (aside,), self.content[aside])
        back = {k: v for k, v in values.items() if k in own or k not in there}
        text, _ = cut_members(add_members(text, (section,), back), (), {aside})
        expected = {k: v for k, v in self.content.items() if k != aside}
        expected[section] = {k: v for k, v in there.items() if k not in own} | {
            k: self.content[aside][k] for k in back
        }
        if self._comparable(_parsed_or_none(self.client.file, text) or {}) != self._comparable(
            expected
        ):
            raise SetupError(
                f"{self.client.file}: move what is under {aside!r} back to {section!r}, and remove "
                f"{NAME!r} there; this cannot be done here without losing something"
            )
        return text

    def _comparable(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in content.items() if k != self.client.section or v}

    def _refused(self, entry: str) -> SetupError:
        return SetupError(
            f"{self.client.file} cannot be changed without losing something in it; put this in "
            f"yourself, and remove the servers that {self.client.title} is to find by it:\n{entry}"
        )

    def _check_unchanged(self) -> None:
        if read_file(self.client.file) != self.data:
            raise SetupError(f"{self.client.file} was changed meanwhile; run it again")

    def _replace(self, path: Path, content: bytes) -> None:
        self._check_unchanged()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = None if self.data is None else stat.S_IMODE(self.client.file.stat().st_mode)
            replace_file(path, content, mode=mode)
        except OSError as error:
            raise SetupError(f"{path} cannot be written: {refusal(error)}") from error


def read_file(path: Path) -> bytes | None:
    """Read a file that is going to be written; None where there is none.

    Raises:
        SetupError: It cannot be read, or must not be written.
    """
    try:
        data = path.read_bytes()
        is_writable = path.stat().st_mode & stat.S_IWUSR and os.access(path, os.W_OK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {refusal(error)}") from error
    if not is_writable:
        raise SetupError(f"{path} is read-only; make it writable (chmod u+w), and run it again")
    return data


def decoded(path: Path, data: bytes) -> str:
    """Decode the content of a file.

    Raises:
        SetupError: It is not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} is not UTF-8 text; save it as UTF-8") from error


def _text(path: Path, data: bytes) -> str:
    """Decode a configuration; one of next to nothing has nothing in it."""
    text = decoded(path, data)
    return text if text.removeprefix(_MARK).strip() or path.suffix == ".toml" else "{}\n"


def parsed(path: Path, text: str) -> dict[str, Any]:
    """Parse a configuration, as TOML if its name says so.

    Raises:
        SetupError: It is invalid.
    """
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
