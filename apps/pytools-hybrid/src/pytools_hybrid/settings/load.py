"""Settings, read once: flags over environment variables over a file over defaults."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping  # noqa: TC003 - pydantic looks it up
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr, ValidationError
from toolimport.system import read_regular_file

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings.fields import (
    ALIASES,
    PREFIX,
    VARIABLES,
    AliasError,
    SettingFields,
    is_address,
    shares,
)
from pytools_hybrid.settings.roots import (
    DEFAULT_ROOT,
    FREEACT_ROOT,
    Roots,
    RootsLike,
    default_roots,
    parsed_layouts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue
    from toolindex import ToolFilter
    from toolindex_postgres import Address
    from toolscan import Layout

IDLE_PATTERN = (
    "the %s pattern %r matches no tool, so it has no effect; ids are source:category:name"
)
"""The warning about a pattern, with the setting and the pattern as arguments."""

_CONFIG_VARIABLE = "PYTOOLS_CONFIG"
_FREEACT_DATABASE = "search.db"
_FILE = "pytools.toml"
_PROJECT_FILE = "pyproject.toml"
_TABLE = "pytools"
_MAX_BYTES = 4 << 20
_COMPARED = 100
_MAX_NAME = 60
_FLAGS = {"embedding_model": "--model", "tools": "--profile"} | {
    name: f"--{name.replace('_', '-')}"
    for name in (
        *("root", "database", "limit", "threshold", "include", "exclude", "read_only"),
        *("run_python", "confirm", "watch", "transport", "host", "port", "log_level"),
    )
}
# The settings allowed in a file that was found rather than named. It may be a stranger's, so none
# of them exposes this machine or widens what an agent may do.
_ALLOWED_IN_FOUND = frozenset(
    {
        *("root", "layouts", "sync", "watch", "include", "exclude", "usage_log"),
        *("embedding_model", "embedding_dim", "embedding_requests_per_minute", "device"),
        *("bm25_weight", "vec_weight", "fusion", "rrf_k", "field_weights", "tuning"),
        *("threshold", "limit", "rerank_model", "rerank_certain", "rerank_gap"),
        *("port", "console", "log_level", "log_format"),
    }
)
# Not fields of `Settings`: the settings file, and what generated modules read.
_OTHER_VARIABLES = (_CONFIG_VARIABLE, "PYTOOLS_SERVERS", "PYTOOLS_CALL_TIMEOUT")
_ANSWERS = "PYTOOLS_INPUT_"
# The prefix of toolscript's variables, many of which have the same name here.
_TOOLSCRIPT = "TOOLSCRIPT_SEARCH_"
# In place of pydantic's, by the type of its error.
_MESSAGES = {"bool_parsing": "it is neither true nor false"}


class Settings(SettingFields):
    """Everything that can be set, with its default.

    Each field is also an environment variable, `PYTOOLS_` and the name in capitals (the root is
    `PYTOOLS_DIR`), and a key of the settings file. `Settings()` reads the environment only,
    `from_flags` also the file.
    """

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _is_found: bool = PrivateAttr(default=False)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], *, file: Path | None = None) -> Self:
        """Build settings: the flags, then the environment, then a file, then the defaults.

        Args:
            flags: Settings by name; None and empty values count as not given.
            file: The settings file; None for the one that `PYTOOLS_CONFIG` names, or else the
                nearest `pytools.toml`, or `pyproject.toml` with a table `[tool.pytools]`, in the
                current folder or one above it.

        Raises:
            SettingsError: A value is invalid, a file cannot be read, or a file that was found
                rather than named has a setting that is only allowed in the latter.
        """
        named = file or _named_file()
        path = named or _found_file()
        in_file = {} if path is None else _read(path)
        if path is not None and named is None:
            _refuse_widening(path, in_file)
        given = {name: value for name, value in flags.items() if value not in (None, [], ())}
        set_ = {name.upper(): value for name, value in os.environ.items() if value}
        in_environment = {
            name: set_[variable] for name, variable in VARIABLES.items() if variable in set_
        }
        sources: tuple[tuple[Mapping[str, Any], Callable[[str], str]], ...] = (
            (given, lambda name: flag(name) or f"the argument {name}"),
            (in_environment, VARIABLES.__getitem__),
            (in_file, lambda name: f"{path}: {name}"),
        )
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for source, place in sources:
            for name, (key, value) in _by_field(source, place).items():
                if name not in values:
                    values[name] = value
                    origins[name] = str(path) if source is in_file else place(key)
        try:
            settings = cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else "bm25_weight"
            where = " / ".join(filter(None, [flag(name), variable(name)]))
            if origins.get(name) == str(path):
                where = f"{path}: {name}"
            message = _MESSAGES.get(first["type"], first["msg"]).removeprefix("Value error, ")
            raise SettingsError(where, message) from None
        settings._origins = origins
        settings._is_found = named is None and path is not None
        return settings

    @property
    def origins(self) -> Mapping[str, str]:
        """The sources of settings without their default value: a flag, a variable or a file."""
        return self._origins

    @property
    def deletes_usage(self) -> bool:
        """Whether an existing usage record has to be deleted.

        A settings file that was found rather than named may be a stranger's: it can switch
        recording off, but deletes nothing.
        """
        by_found_file = self._is_found and self._origins.get("usage_log", "").endswith(".toml")
        return not self.usage_log and not by_found_file

    @property
    def follows_files(self) -> bool:
        """Whether this process keeps the index up to date; otherwise it only searches it."""
        return self.sync or (self.watch and self.server is None)

    @property
    def only_reads(self) -> bool:
        """Whether this host only reads a shared index, so no root has to exist here."""
        return self.server is not None and not self.sync

    @property
    def db_path(self) -> Path | None:
        """The file named for the index; None if none or a server is named."""
        return self.database if isinstance(self.database, Path) else None

    @property
    def server(self) -> Address | None:
        """The server that the index is on; None if it is a file."""
        return None if isinstance(self.database, Path) else self.database

    @property
    def policy(self) -> ToolFilter:
        """The filter for tools that can be found, listed and described at all."""
        from toolindex import ToolFilter

        return ToolFilter(include=self.include, exclude=self.exclude)

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """The patterns that are meant to match tools, and the setting that each is from."""
        names = ("include", "exclude", *(("confirm", "pin") if self.tools == "call" else ()))
        return tuple((name, pattern) for name in names for pattern in getattr(self, name))

    @property
    def resolved_layouts(self) -> tuple[Layout, ...]:
        """Where the tools are in each root."""
        return parsed_layouts(self.layouts)

    def resolved_root(self) -> tuple[Roots, str | None]:
        """Return the roots to use, and a note for the user if they are a default.

        Raises:
            SettingsError: No root is set, and no default exists.
        """
        if self.root:
            return Roots.of(self.root, self.resolved_layouts), None
        try:
            return default_roots(self.resolved_layouts)
        except SettingsError:
            if not self.only_reads:
                raise
            # The tools are on other hosts.
            return Roots.of(DEFAULT_ROOT, self.resolved_layouts), None

    def resolved_database(self, root: RootsLike) -> Path:
        """Decide where the index of some roots is kept.

        By default it is in the user's cache folder, under the root's full path, so that nothing is
        written to trees, which may be read-only. For freeact's root it is where freeact has it. For
        an index on a server, the cache folder has a copy.
        """
        if self.db_path is not None:
            return self.db_path
        roots = Roots.of(root, self.resolved_layouts)
        # In one index, processes with different layouts would undo each other's work.
        files = f"{roots.identity}{roots.layout_key}"
        if (server := self.resolved_server(roots)) is not None:
            name = "".join(it if it.isascii() and it.isalnum() else "_" for it in server.tree)
            # The copy has the stamps of these roots' files.
            key = f"{server}\n{'' if self.only_reads else files}"
            return _in_cache(name[:_MAX_NAME], key, ".shared.db")
        first, *others = roots
        is_freeacts = Path(os.path.abspath(first)).parts[-2:] == FREEACT_ROOT.parts  # noqa: PTH100
        if is_freeacts and not others:
            return first.parent / _FREEACT_DATABASE
        name = Path(os.path.realpath(first)).name.encode("ascii", "replace").decode()
        more = f"+{len(others)}" if others else ""
        return _in_cache(f"{name.replace('?', '_')}{more}", files, ".db")

    def resolved_server(self, root: RootsLike) -> Address | None:
        """Return the server that the index is on, with the name of the tree; None for a file.

        If the address names no tree, it is named after the checkout, so hosts with the same
        checkout share a tree.

        Raises:
            SettingsError: The address names no tree, and there is no root to name it after.
        """
        if self.server is None or self.server.tree:
            return self.server
        roots = Roots.of(root, self.resolved_layouts)
        if not any(os.path.isdir(it) for it in roots):  # noqa: PTH112 - no errors
            raise SettingsError(
                self.origins.get("database", "database"),
                "the address has no tree=NAME, and there is no root here to name it after; "
                "pytools-hybrid status --all lists the trees",
            )
        return self.server.of(roots.tree_name)

    def resolved_tuning(self, root: RootsLike) -> Path | None:
        """Return the path of the tuning file, which need not exist; None to search without."""
        if self.tuning is None:
            return tuned_path(self.resolved_database(root))
        return None if str(self.tuning) == "none" else self.tuning

    @classmethod
    def unknown_variables(cls) -> dict[str, str]:
        """Return the environment variables that look like settings but are not.

        Returns:
            The most similar setting for each variable, or an empty string.
        """
        # The prefix would make all names similar.
        known = {name.removeprefix(PREFIX) for name in (*VARIABLES.values(), *_OTHER_VARIABLES)}
        nearest: dict[str, str] = {}
        for name in sorted(os.environ):
            ending = name.upper().removeprefix(_TOOLSCRIPT).removeprefix(PREFIX)
            is_known = ending in known and name.upper().startswith(PREFIX)
            is_ours = name.upper().startswith((PREFIX, _TOOLSCRIPT))
            if is_ours and not is_known and not name.upper().startswith(_ANSWERS):
                near = get_close_matches(ending, known, n=1)
                nearest[name] = f"{PREFIX}{near[0]}" if near else ""
        return nearest


def flag(name: str) -> str | None:
    """Return the flag of a setting, or None."""
    return _FLAGS.get(name)


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{'DIR' if name == 'root' else name.upper()}"


def tuned_path(database: Path) -> Path:
    """Return the path of the tuning file beside an index."""
    return database.with_name(f"{database.name}-tuned")


def is_allowed_in_found(name: str, value: object) -> bool:
    """Return whether a settings file that was found rather than named may contain a setting."""
    if name == "tools":
        return value != "call"
    if name == "database":
        return not is_address(value)
    return name in _ALLOWED_IN_FOUND


def _by_field(given: Mapping[str, Any], place: Callable[[str], str]) -> dict[str, tuple[str, Any]]:
    """Return the settings of one source by their fields, each with the name that it has there."""
    values: dict[str, tuple[str, Any]] = {}
    # A setting's own name comes before its aliases.
    for key in sorted(given, key=ALIASES.__contains__):
        try:
            meant = (
                shares(given[key]) if key == "alpha" else {ALIASES.get(key, (key,))[0]: given[key]}
            )
        except ValueError as error:
            raise SettingsError(place(key), str(error)) from None
        for name, value in meant.items():
            if name in values and str(values[name][1]) != str(value):
                raise SettingsError(place(key), str(AliasError.conflict(key, name)))
            values.setdefault(name, (key, value))
    return values


def _in_cache(name: str, key: str, suffix: str) -> Path:
    from hashlib import sha256

    from platformdirs import user_cache_path

    digest = sha256(os.fsencode(key)).hexdigest()[:12]
    return user_cache_path("pytools-hybrid") / f"{name}-{digest}{suffix}"


# The settings file


def _named_file() -> Path | None:
    named = os.environ.get(_CONFIG_VARIABLE)
    with suppress(RuntimeError):
        return Path(named).expanduser() if named else None
    return Path(named or "")


def _found_file() -> Path | None:
    """Return the settings file for the current folder: the nearest one, there or above it.

    In each folder `pytools.toml` comes first, then a `pyproject.toml` with a table
    `[tool.pytools]`. A `pyproject.toml` that cannot be read is skipped, and so is a file that
    belongs to another user: anybody can write to a folder such as `/tmp`.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        # It was removed.
        return None
    for place in (folder, *folder.parents):
        if _is_own_file(file := place / _FILE):
            return file
        project = place / _PROJECT_FILE
        with suppress(SettingsError):
            if _is_own_file(project) and _content(project) is not None:
                return project
    return None


def _is_own_file(path: Path) -> bool:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    if not stat.S_ISREG(status.st_mode):
        return False
    return not hasattr(os, "getuid") or status.st_uid in {os.getuid(), 0}


def _content(path: Path) -> JsonValue:
    """Return the settings in a TOML file; in a `pyproject.toml` its table `[tool.pytools]`."""
    import tomllib

    try:
        text = read_regular_file(path, limit=_MAX_BYTES)
    except FileNotFoundError:
        raise SettingsError(str(path), "does not exist; give the path of a settings file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(str(path), f"cannot be read: {reason}") from error
    is_project = path.name == _PROJECT_FILE
    if is_project and _TABLE.encode() not in text:
        return None
    try:
        # Some editors write a byte-order mark.
        content: dict[str, JsonValue] = tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SettingsError(str(path), f"is not valid TOML: {error}") from error
    if not is_project:
        return content
    tool = content.get("tool")
    return tool.get(_TABLE) if isinstance(tool, dict) else None


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a file, whose names may have hyphens for underscores."""
    content = _content(path)
    if content is not None and not isinstance(content, dict):
        raise SettingsError(f"{path}: tool.{_TABLE}", "is not a table of settings")
    base = Path(os.path.abspath(path)).parent  # noqa: PTH100 - links in it may be meant
    values: dict[str, Any] = {}
    for key, value in (content or {}).items():
        name = key.replace("-", "_")
        if name not in VARIABLES:
            near = get_close_matches(name[:_COMPARED], SettingFields.model_fields, n=1)
            hint = f"did you mean {near[0]}?" if near else "pytools-hybrid config lists them"
            raise SettingsError(f"{path}: {key}", f"is not a setting; {hint}")
        if name in values:
            raise SettingsError(f"{path}: {key}", f"is set twice, also as {name}")
        values[name] = value
    for name in {"root", "database", "db_path", "tuning"} & values.keys():
        values[name] = _below(base, values[name])
    if isinstance(root := values.get("root"), str):
        # In a file, the character that separates paths in a variable is part of a name.
        values["root"] = [root]
    return values


def _below(base: Path, value: JsonValue) -> JsonValue:
    """Return paths relative to a folder, wherever the command is started."""
    if isinstance(value, list):
        return [_below(base, each) for each in value]
    # "none" is not a path, but a value of `tuning`.
    if not isinstance(value, str) or value.startswith("~") or value == "none" or is_address(value):
        return value
    return str(base / value)


def _refuse_widening(path: Path, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not all(is_allowed_in_found(it, value) for it in ALIASES.get(name, (name,))):
            raise SettingsError(
                f"{path}: {name}",
                "is only allowed in a file that is named explicitly, as by "
                f"{_CONFIG_VARIABLE}={path}; or remove it there, and set {variable(name)}",
            )
