"""A client's configuration file: reading, changing and restoring it."""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tempfile
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, count
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolimport._errors import ServerError, ServersFileError, ToolImportError, refusal
from toolimport.clients._secrets import Redactor, secrets_in
from toolimport.clients._servers import ServerEntry, full_path, servers_in
from toolimport.clients._shapes import NAME, as_object, is_ours, merged, texts_in, with_texts
from toolimport.clients._texts import (
    add_members,
    comments_in,
    cut_members,
    member,
    move_members,
    parse,
    quoted,
)
from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Entry = Callable[[Mapping[str, str]], dict[str, Any]]

_MARK = "\ufeff"
_OPEN_FOLDER = re.compile(r"\$\{(?:workspace|relativeFile|file|cwd)\w*\}")
_INPUT = re.compile(r"\$\{input:([^{}]+)\}")
_BEGIN = "# Added by pytools-hybrid setup"
_END = "# End of what pytools-hybrid setup added"
_BLOCK = re.compile(rf"\n{_BEGIN}\n.*?{_END}\n", re.DOTALL)
_ONLY_OWNER = 0o600
_TRIES = 3
_WITH_LOST_PART = "cannot be changed without losing something in it"

Place = tuple[str, ...]
"""The keys that lead to an object with servers: none, or those of one of Claude Code's projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An MCP client on this machine.

    No client has a key that reliably disables a server: Claude Code ignores `"disabled": true`, and
    Cursor and VS Code store the list of disabled servers elsewhere. So servers are moved to a key
    that the client ignores.

    Attributes:
        name: Its name on the command line.
        title: Its name for people.
        trace: A folder that exists once the client has been used.
        file: Its configuration file for all projects of a user.
        section: The key of its servers in the file.
        reference: How its files refer to an environment variable, with `{}` for the name; empty if
            they cannot.
        has_inputs: Whether its files can refer to inputs, which it asks the user for.
        extra: What it needs in our entry in addition.
        projects: The folders that are the current project, for a client that keeps the servers of
            projects in this file too.
        moves: Whether its servers are moved. freeact's are not, because it generates Python tools
            from them itself.
        next_step: What the user has to do afterwards.
    """

    name: str
    title: str
    trace: Path
    file: Path
    section: str = "mcpServers"
    reference: str = ""
    has_inputs: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    projects: tuple[Path, ...] = ()
    moves: bool = True
    next_step: str = "restart it"

    @classmethod
    def known(
        cls, *, system: str, environment: Mapping[str, str], home: Path, folder: Path
    ) -> tuple[Client, ...]:
        """Return every supported client, whether it is installed or not.

        Args:
            system: The operating system, as in `sys.platform`.
            environment: The environment variables.
            home: The user's home folder.
            folder: The current folder, for a client that is configured in its project.
        """
        match system:
            case "darwin":
                settings = home / "Library" / "Application Support"
            case "win32":
                settings = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
            case _:
                settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
        claude = environment.get("CLAUDE_CONFIG_DIR")
        freeact, toml = folder / ".freeact", folder / ".freeact" / "config.toml"
        repository = next(
            (it for it in (folder, *folder.parents) if (it / ".git").exists()), folder
        )
        return (
            cls(
                name="claude-code",
                title="Claude Code",
                trace=Path(claude or home / ".claude"),
                file=Path(claude or home) / ".claude.json",
                # Without a default, Claude Code rejects our entry if the variable is not set.
                reference="${{{}:-}}",
                # Without it, Claude Code may leave all our tools out of a request.
                extra={"alwaysLoad": True},
                projects=(folder, repository),
            ),
            cls(
                name="claude-desktop",
                title="Claude Desktop",
                trace=settings / "Claude",
                file=settings / "Claude" / "claude_desktop_config.json",
            ),
            cls(
                name="cursor",
                title="Cursor",
                trace=home / ".cursor",
                file=home / ".cursor" / "mcp.json",
                reference="${{env:{}}}",
                next_step="enable it under Customize > MCPs, because new servers are off in Cursor",
            ),
            cls(
                name="vscode",
                title="VS Code",
                trace=settings / "Code" / "User",
                file=settings / "Code" / "User" / "mcp.json",
                section="servers",
                reference="${{env:{}}}",
                has_inputs=True,
                next_step="run 'MCP: List Servers', and start pytools",
            ),
            cls(
                name="freeact",
                title="freeact",
                trace=freeact,
                file=toml if toml.exists() else freeact / "agent.json",
                section="mcp_servers",
                moves=False,
            ),
        )

    @property
    def is_installed(self) -> bool:
        """Whether it has been used on this machine."""
        return os.path.lexists(self.file) or self.trace.is_dir()

    @property
    def aside(self) -> str:
        """The key for servers that the client no longer starts itself."""
        return f"_{self.section}_before_pytools"

    @property
    def backup(self) -> Path:
        """The path of the backup from before setup."""
        return self.file.with_name(f"{self.file.name}.before-pytools")

    @property
    def has_moved(self) -> bool:
        """Whether setup has moved servers of the client."""
        content = (found := ClientFile.read(self)).content
        return any(_at(content, place).get(self.aside) for place in found.places)

    def undo(self) -> str:
        """Undo setup; return what happened to the file.

        Raises:
            ToolImportError: Something in the file would be lost.
        """
        return ClientFile.read(self).undo()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A planned change of one client's configuration.

    Attributes:
        names: The servers to move: their names in our file, by their places in the client's file.
        staying: The reasons why other servers are not moved, by name.
        same: The names in our file of servers that it has under another name, by name.
    """

    client: Client
    entry: Entry
    names: Mapping[tuple[Place, str], str]
    staying: Mapping[str, str]
    same: Mapping[str, str]

    def diff(self) -> str:
        """Return the diff, without secrets; empty if nothing changes."""
        found = ClientFile.read(self.client)
        before = "" if found.data is None else found.text
        after, name = self._edited(found, self.names), str(self.client.file)
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), name, name, lineterm=""
        )
        return Redactor(secrets_in(found.content, before)).text("\n".join(lines))

    def make(self, imported: Collection[str]) -> bool:
        """Apply the change for the imported servers; return whether that changed the file."""
        found = ClientFile.read(self.client)
        moved = [theirs for theirs, name in self.names.items() if name in imported]
        return found.write(self._edited(found, moved))

    def _edited(self, found: ClientFile, moved: Collection[tuple[Place, str]]) -> str:
        servers = [it for key, it in found.servers().items() if key in moved]
        env = _handed_on(servers, self.client)
        return found.edited(moved, {**self.entry(env), **self.client.extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """The configuration of a client, as read; the text is `{}` if there is none."""

    client: Client
    data: bytes | None = field(repr=False)
    text: str = field(repr=False)
    content: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, client: Client) -> ClientFile:
        """Read the configuration of a client."""
        data = _read_bytes(client.file)
        text = _text(client.file, data)
        content = _parsed(client.file, text)
        made = cls(client=client, data=data, text=text, content=content)
        for place in made.places:
            for key in (client.section, client.aside):
                if not isinstance(_at(content, place).get(key, {}), dict):
                    raise ToolImportError("", f"{client.file}: {key!r} must be an object")
        return made

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of servers that the client starts here, or that setup has moved."""
        moved = (it for it, project in self._projects.items() if self.client.aside in project)
        return tuple(dict.fromkeys(((), *self._current, *(("projects", it) for it in moved))))

    @property
    def _projects(self) -> dict[str, dict[str, Any]]:
        """The projects that have settings of their own in the file, by their folders."""
        found = as_object(self.content.get("projects")) if self.client.projects else {}
        return {path: it for path, it in found.items() if isinstance(it, dict)}

    @property
    def _current(self) -> list[Place]:
        return [("projects", it) for it in self._projects if Path(it) in self.client.projects]

    @property
    def _is_set_up(self) -> bool:
        """Whether setup has changed the file before."""
        if self._is_toml:
            return _BLOCK.search(self.text) is not None
        return self.client.aside in self.content

    @property
    def _is_toml(self) -> bool:
        return self.client.file.suffix == ".toml"

    def servers(self) -> dict[tuple[Place, str], ServerEntry]:
        """Return the servers that the client starts here, except our own."""
        if not self.client.moves:
            return {}
        key, off = self.client.section, "disabledMcpServers"
        disabled = [it for at in self._current for it in _at(self.content, at).get(off) or ()]
        common = {"inputs": self.content.get("inputs"), off: disabled}
        found: dict[tuple[Place, str], ServerEntry] = {}
        for place in ((), *self._current):
            content = {"mcpServers": _at(self.content, place).get(key, {}), **common}
            folder = Path(place[1]) if place else None
            for entry in servers_in(content, full_path(self.client.file), folder):
                if not is_ours(entry.name, entry.definition):
                    found[place, entry.name] = entry
        return found

    def edited(self, moved: Collection[tuple[Place, str]], entry: dict[str, Any]) -> str:
        """Return the text with our entry, and with servers moved to an ignored key.

        If something in the file would be lost, the error shows the entry to add.
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
            gone = names if place or (is_there and self._is_set_up) else {*names, name}
            text, old = cut_members(text, (*place, aside), names)
            text, cut = cut_members(text, (*place, section), gone)
            if not place and self._is_set_up and name not in names:
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
        if not is_kept or not self._means(text, expected):
            raise self._refused(json.dumps({section: {name: entry}}, indent=2))
        return text

    def _edited_toml(self, entry: dict[str, Any]) -> str:
        """Return the text with a block of ours at its end."""
        table = f"agent.mcp_servers.{NAME}"
        env = (f"{key} = {quoted(value)}" for key, value in entry["env"].items())
        command, args = quoted(entry["command"]), ", ".join(map(quoted, entry["args"]))
        lines = (f"[{table}]", f"command = {command}", f"args = [{args}]", "", f"[{table}.env]")
        block = "\n".join((*lines, *env, ""))
        before = _BLOCK.sub("", self.text)
        newline = "" if not before or before.endswith("\n") else "\n"
        text = f"{before}{newline}\n{_BEGIN}\n{block}{_END}\n"
        expected = _parsed(self.client.file, before)
        try:
            servers = expected.setdefault("agent", {}).setdefault("mcp_servers", {})
            is_free = NAME not in servers
            servers[NAME] = entry
        except (AttributeError, TypeError):
            is_free = False
        if not is_free or not self._means(text, expected):
            raise self._refused(block)
        return text

    def _refused(self, entry: str) -> ToolImportError:
        return ToolImportError(
            "",
            f"{self.client.file} {_WITH_LOST_PART}; add this yourself, and remove the servers that "
            f"{self.client.title} should use through it:\n{entry}",
        )

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

    def _means(self, text: str, expected: Mapping[str, Any], *, loosely: bool = False) -> bool:
        """Return whether a text has the expected content; loosely, without an empty section."""
        try:
            found = _parsed(self.client.file, text)
        except ToolImportError:
            return False
        if loosely:
            section = self.client.section
            found, expected = (
                {k: v for k, v in it.items() if k != section or v} for it in (found, expected)
            )
        return found == expected

    def _restored(self) -> bytes | None:
        """Return the content of the file without the changes by setup; None if there was no file.

        Changes that were made since setup are kept.
        """
        if not self._is_set_up:
            return self.data
        text = _BLOCK.sub("", self.text) if self._is_toml else self._restored_json()
        with suppress(ToolImportError):
            before = _read_bytes(self.client.backup)
            was = _text(self.client.file, before)
            # Except for white space and order.
            is_same = text.strip() == was.strip()
            if not self._is_toml:
                content = _parsed(self.client.file, was)
                is_same = self._means(text, content, loosely=True)
                is_same &= comments_in(text) == comments_in(was)
            if is_same:
                return before
        return text.encode("utf-8")

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
        if not is_kept or not self._means(text, expected, loosely=True):
            raise ToolImportError(
                "",
                f"{self.client.file}: setup cannot be undone without losing something in it; move "
                f"the servers under {aside!r} back to {section!r} yourself, and remove {NAME!r} "
                "there",
            )
        return text

    def write(self, text: str) -> bool:
        """Write a new text and a backup of the old one; return whether that changed anything."""
        if self.data is not None and text == self.text:
            return False
        backup = self.client.backup
        before, kept = self._restored(), _read_bytes(backup)
        if before != kept:
            if kept is not None and not self._is_set_up:
                # It is of an earlier file.
                names = (backup.with_name(f"{backup.name}-{it}") for it in count(2))
                with suppress(FileNotFoundError):
                    backup.rename(next(it for it in names if not os.path.lexists(it)))
            if before is not None:
                self._replace(backup, before)
        self._replace(self.client.file, text.encode("utf-8"))
        return True

    def undo(self) -> str:
        """Undo setup; return what happened to the file."""
        backup = self.client.backup
        for path in (self.client.file, backup):
            _discard_unfinished(path)
        before, kept = self._restored(), _read_bytes(backup)
        if self._is_set_up and before is None:
            _check_unchanged(self.client.file, self.data)
            Path(os.path.realpath(self.client.file)).unlink()
            return "removed, because there was none before"
        if self._is_set_up and before is not None:
            self._replace(self.client.file, before)
        if kept is not None and before == kept:
            # Also if a run was killed before it changed the file, or after it restored it.
            backup.unlink()
            return "restored"
        done = "nothing to undo"
        if self._is_set_up:
            done = "changed since setup; only the changes made by setup were undone"
        return done if kept is None else f"{done}; {backup} is a copy from before setup"

    def _replace(self, path: Path, content: bytes) -> None:
        _check_unchanged(self.client.file, self.data)
        mode = None if self.data is None else stat.S_IMODE(self.client.file.stat().st_mode)
        _replace_file(path, content, mode)


class ServersFile:
    """Our own servers file, which the user may have edited, and changes of clients that use it.

    Raises:
        ToolImportError: It cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.changes: list[Change] = []
        self._data = _read_bytes(path)
        self._text = _text(path, self._data)
        content = _parsed(path, self._text)
        self._section = "servers" if "servers" in content else "mcpServers"
        known: Any = content.get(self._section, {})
        if not isinstance(known, dict):
            raise ToolImportError("", f"{path}: {self._section!r} must be an object")
        self._known: dict[str, Any] = known
        self._added: dict[str, Any] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all servers in it, saved or not."""
        return frozenset(self._known | self._added)

    def plan(self, client: Client, entry: Entry, home: Path) -> Change:
        """Plan to replace the servers of a client by ours, and add them here.

        Files left behind by a killed run are removed.

        Args:
            client: The client.
            entry: Returns our entry, for the environment variables that it has to pass on.
            home: The folder in which the client starts servers.

        Raises:
            ToolImportError: The client's file cannot be read or changed.
        """
        names: dict[tuple[Place, str], str] = {}
        staying: dict[str, str] = {}
        same: dict[str, str] = {}
        found = ClientFile.read(client)
        for path in (client.file, client.backup, self.path):
            _discard_unfinished(path)
        for key, server in found.servers().items():
            known = self.names
            try:
                if server.disabled or server.skipped:
                    raise ServerError(server.name, server.skipped or "it is disabled")
                names[key] = own = self.add(_copied(server, home), server.name)
            except ServerError as error:
                staying[server.name] = error.reason
                continue
            if own in known and own != server.name:
                same[server.name] = own
        change = Change(client=client, entry=entry, names=names, staying=staying, same=same)
        # This fails before anything is written.
        change.diff()
        self.changes.append(change)
        return change

    def add(self, definition: Mapping[str, Any], name: str) -> str:
        """Add a server unless it is there, and return its name here.

        Servers that start in the same way, with the same tools switched off, are the same, even
        under different names. If another server has the name, a number is appended.
        """
        for known, it in (self._known | self._added).items():
            content: Any = {"mcpServers": {"one": it, "other": definition}}
            with suppress(ServersFileError):
                first, second = servers_in(content, self.path)
                if it == definition or first.starts_same(second):
                    return known
        numbered = (f"{name}-{number}" for number in count(2))
        free = next(it for it in chain((name,), numbered) if it not in self.names)
        self._added[free] = definition
        return free

    def save(self) -> None:
        """Write the added servers; only the owner can read a new file."""
        made = [member(name, it, self._text, 2) for name, it in self._added.items()]
        self._write(add_members(self._text, (self._section,), made), self._known | self._added)

    def drop(self, names: Collection[str]) -> None:
        """Remove saved servers that do not work."""
        gone = [name for name in names if name in self._added]
        left = {name: it for name, it in self._known.items() if name not in gone}
        self._write(cut_members(self._text, (self._section,), gone)[0], left)

    def _write(self, text: str, servers: dict[str, Any]) -> None:
        if text == self._text:
            return
        if _parsed(self.path, text).get(self._section) != servers:
            raise ToolImportError("", f"{self.path} {_WITH_LOST_PART}")
        _check_unchanged(self.path, self._data)
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            reason = "a server's definition has half of a surrogate pair"
            raise ToolImportError("", f"{self.path} cannot be written: {reason}") from error
        _replace_file(self.path, data, _ONLY_OWNER)
        self._data, self._text, self._known = data, text, servers


def _copied(entry: ServerEntry, home: Path) -> dict[str, Any]:
    """Return a client's definition of a server, adapted so that it means the same in our file.

    References to variables are kept, so that secrets stay where they are. `ServerError` is raised
    if the server depends on the folder that is open in the client.
    """
    if entry.folder is not None and entry.is_relative:
        home = entry.folder
    if found := next(filter(None, map(_OPEN_FOLDER.search, texts_in(entry.definition))), None):
        raise ServerError(entry.name, f"{found[0]} depends on the folder open in the client")

    def full(path: str) -> str:
        return path if path.startswith("${") else str(home / Path(path).expanduser())

    def with_default(reference: re.Match[str]) -> str:
        # VS Code has the defaults of inputs elsewhere in its file.
        if reference[1] not in entry.inputs:
            return reference[0]
        variable = entry.variables().rewritten(reference[0], lambda _: None)
        return f"{variable[:-1]}:-{entry.inputs[reference[1]]}}}"

    made: dict[str, Any] = with_texts(
        dict(entry.definition), lambda text: _INPUT.sub(with_default, text)
    )
    if entry.transport == "stdio":
        made["cwd"] = full(str(made.get("cwd") or "."))
        if isinstance(file := made.get("envFile"), str):
            made["envFile"] = full(file)
    return made


def _handed_on(entries: Sequence[ServerEntry], client: Client) -> dict[str, str]:
    """Return the variables that servers refer to, written as the client's references."""
    needed: dict[str, str] = {}
    for entry in entries if client.reference else ():
        for text in texts_in(entry.definition):
            references = [(_INPUT.sub("", text), client.reference)]
            if client.has_inputs:
                inputs = _INPUT.finditer(text)
                references += [(it[0], f"${{{{input:{it[1]}}}}}") for it in inputs]
            for part, reference in references:
                names: list[str] = []
                with suppress(ServerError):
                    entry.variables().rewritten(part, names.append)
                needed |= {it: reference.format(it) for it in names if it not in needed}
    return needed


def _at(content: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the object that a place leads to."""
    return reduce(getitem, place, cast("dict[str, Any]", content))


def _read_bytes(path: Path) -> bytes | None:
    """Read a file that is going to be written; return None if there is none."""
    try:
        data = read_regular_file(path)
        is_writable = path.stat().st_mode & stat.S_IWUSR and os.access(path, os.W_OK)
    except FileNotFoundError:
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not target.parent.is_dir():
            raise ToolImportError(
                "",
                f"{path} is a link to {target}, whose folder does not exist; create the folder, or "
                "remove the link",
            ) from None
        return None
    except OSError as error:
        raise ToolImportError("", f"{path} cannot be read: {refusal(error)}") from error
    if not is_writable:
        raise ToolImportError(
            "", f"{path} is read-only; make it writable (chmod u+w), and run setup again"
        )
    return data


def _text(path: Path, data: bytes | None) -> str:
    """Decode a configuration; a blank one counts as empty."""
    try:
        text = (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolImportError("", f"{path} is not UTF-8 text; save it as UTF-8") from error
    return text if text.removeprefix(_MARK).strip() or path.suffix == ".toml" else "{}\n"


def _parsed(path: Path, text: str) -> dict[str, Any]:
    content = parse(text.removeprefix(_MARK), path)
    if not isinstance(content, dict):
        raise ToolImportError("", f"{path} must contain a JSON object")
    return cast("dict[str, Any]", content)


def _check_unchanged(path: Path, data: bytes | None) -> None:
    if _read_bytes(path) != data:
        raise ToolImportError("", f"{path} was changed in the meantime; run setup again")


def _replace_file(path: Path, content: bytes, mode: int | None) -> None:
    """Replace a file in one step; a link stays. `mode` is for a new file, None for the umask's."""
    target = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(target.stat().st_mode)
        if mode is None:
            os.umask(umask := os.umask(0o077))
            mode = 0o666 & ~umask
        for _ in range(_TRIES):
            descriptor, name = tempfile.mkstemp(
                prefix=f".{target.name}-", suffix=".tmp", dir=target.parent
            )
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).chmod(mode)
                Path(name).replace(target)
            except FileNotFoundError:
                # Another setup has taken it for one that a killed run left behind.
                continue
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            return
        raise ToolImportError("", f"{path} cannot be written: another setup is running")
    except OSError as error:
        raise ToolImportError("", f"{path} cannot be written: {refusal(error)}") from error


def _discard_unfinished(path: Path) -> None:
    """Remove files that a killed run left beside a file."""
    path = Path(os.path.realpath(path))
    unfinished = re.compile(rf"\.{re.escape(path.name)}-[a-z0-9_]{{8}}\.tmp")
    with suppress(OSError):
        for left in [it for it in path.parent.iterdir() if unfinished.fullmatch(it.name)]:
            left.unlink()
