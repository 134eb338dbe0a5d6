"""Settings, read once: flags over environment variables over a file over defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 - pydantic looks it up
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr, ValidationError

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings._aliases import ALIASES, AliasError, resolved
from pytools_hybrid.settings._fields import PREFIX, SettingFields
from pytools_hybrid.settings._file import (
    CONFIG_VARIABLE,
    SettingsFile,
    find_settings_file,
    is_allowed_in_found,
    read_settings_file,
)
from pytools_hybrid.settings._layouts import parsed_layouts
from pytools_hybrid.settings._roots import (
    DEFAULT_ROOT,
    FREEACT_ROOT,
    Roots,
    RootsLike,
    default_roots,
)

if TYPE_CHECKING:
    from toolindex import ToolFilter
    from toolindex_postgres import Address
    from toolscan import Layout

_FREEACT_DATABASE = "search.db"
_ROOT_NAMES = ("root", "PYTOOLS_DIR")
_FLAGS = {
    "PYTOOLS_DIR": "--root",
    "PYTOOLS_DATABASE": "--database",
    "PYTOOLS_EMBEDDING_MODEL": "--model",
    "PYTOOLS_LIMIT": "--limit",
    "PYTOOLS_THRESHOLD": "--threshold",
    "PYTOOLS_INCLUDE": "--include",
    "PYTOOLS_EXCLUDE": "--exclude",
    "PYTOOLS_TOOLS": "--profile",
    "PYTOOLS_READ_ONLY": "--read-only",
    "PYTOOLS_RUN_PYTHON": "--run-python",
    "PYTOOLS_CONFIRM": "--confirm",
    "PYTOOLS_WATCH": "--watch",
    "PYTOOLS_TRANSPORT": "--transport",
    "PYTOOLS_HOST": "--host",
    "PYTOOLS_PORT": "--port",
    "PYTOOLS_LOG_LEVEL": "--log-level",
}
# A common guess, which counts as the root.
_OTHER_ROOT = "PYTOOLS_ROOT"
# Not fields of `Settings`: the settings file, and what generated modules read.
_OTHER_VARIABLES = (CONFIG_VARIABLE, _OTHER_ROOT, "PYTOOLS_SERVERS", "PYTOOLS_CALL_TIMEOUT")
_ANSWERS = "PYTOOLS_INPUT_"
# The prefix of toolscript's variables, many of which have the same name here.
_TOOLSCRIPT = "TOOLSCRIPT_SEARCH_"
_MOST_OF_NAME = 60
IDLE_PATTERN = (
    "the %s pattern %r matches no tool, so it has no effect; ids are source:category:name"
)
"""The warning about a pattern, with the setting and the pattern as arguments."""

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

    @property
    def follows_files(self) -> bool:
        """Whether this process keeps the index up to date; otherwise it only searches it."""
        return self.sync or (self.watch and self.server is None)

    @property
    def db_path(self) -> Path | None:
        """The file named for the index; None if none or a server is named."""
        return self.database if isinstance(self.database, Path) else None

    @property
    def only_reads(self) -> bool:
        """Whether this host only reads a shared index, so no root has to exist here."""
        return self.server is not None and not self.sync

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

    def resolved_root(self) -> tuple[Roots, str | None]:
        """Return the roots to use, and a note for the user if they are a default.

        Raises:
            SettingsError: No root is set, and no default exists.
        """
        if self.root:
            return Roots.of(self.root, self.resolved_layouts), None
        try:
            return default_roots(self.resolved_layouts)
        except SettingsError as error:
            if self.only_reads:
                # The tools are on other hosts.
                return Roots.of(DEFAULT_ROOT, self.resolved_layouts), None
            if self.server is None:
                raise
            raise SettingsError(
                error.setting,
                f"{error.message}; or set PYTOOLS_SYNC=false if this host only reads the shared "
                "index",
            ) from None

    @property
    def resolved_layouts(self) -> tuple[Layout, ...]:
        """Where the tools are in each root."""
        return parsed_layouts(self.layouts)

    def resolved_database(self, root: RootsLike) -> Path:
        """Decide where the index of some roots is kept.

        By default it is in the user's cache folder, under the root's full path, so that nothing is
        written to trees, which may be read-only. For freeact's root it is where freeact has it. For
        an index on a server, the cache folder has a copy.
        """
        if self.db_path is not None:
            return self.db_path
        roots = Roots.of(root, self.resolved_layouts)
        if (server := self.resolved_server(roots)) is not None:
            # The copy has the stamps of these roots' files.
            return _cached_copy(server, "" if self.only_reads else _identity(roots))
        first, *others = roots
        is_freeacts = Path(os.path.abspath(first)).parts[-2:] == FREEACT_ROOT.parts  # noqa: PTH100
        if is_freeacts and not others:
            return first.parent / _FREEACT_DATABASE
        from hashlib import sha256

        from platformdirs import user_cache_path

        key = sha256(os.fsencode(_identity(roots))).hexdigest()[:12]
        name = Path(os.path.realpath(first)).name.encode("ascii", "replace").decode()
        more = f"+{len(others)}" if others else ""
        return user_cache_path("pytools-hybrid") / f"{name.replace('?', '_')}{more}-{key}.db"

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
        known = {*map(variable, (*cls.model_fields, *ALIASES)), *_OTHER_VARIABLES}
        given = (name for name in os.environ if name.upper().startswith((PREFIX, _TOOLSCRIPT)))
        unknown = sorted(
            name
            for name in given
            if name.upper() not in known and not name.upper().startswith(_ANSWERS)
        )
        if not unknown:
            return {}
        # Imported here because it is rarely needed.
        from difflib import get_close_matches

        # The prefix would make all names similar.
        endings = {name.removeprefix(PREFIX): name for name in known}
        nearest: dict[str, str] = {}
        for name in unknown:
            ending = name.upper().removeprefix(_TOOLSCRIPT).removeprefix(PREFIX)
            found = get_close_matches(ending, endings, n=1)
            nearest[name] = endings[found[0]] if found else ""
        return nearest

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
        given = {name: value for name, value in flags.items() if value not in (None, [], ())}
        set_variables = {name.upper() for name, value in os.environ.items() if value}
        origins = {
            name: variable(alias)
            for alias, names in (*ALIASES.items(), *((name, (name,)) for name in cls.model_fields))
            for name in names
            if variable(alias) in set_variables
        }
        try:
            by_name = resolved(given)
        except AliasError as error:
            raise SettingsError(flag(error.alias) or error.alias, str(error)) from None
        flagged = {name: flag(name) or "the caller" for name in by_name}
        if "alpha" in given:
            flagged |= dict.fromkeys(ALIASES["alpha"], "alpha")
        given, origins = by_name, origins | flagged
        if _OTHER_ROOT in set_variables:
            origins.setdefault("root", _OTHER_ROOT)
        named = file or _named_file()
        path = named or _found_file()
        settings_file = None if path is None else read_settings_file(path, known=cls.model_fields)
        if settings_file is not None:
            if named is None:
                _refuse_widening(settings_file)
            in_file = {
                name: value for name, value in settings_file.values.items() if name not in origins
            }
            given |= in_file
            origins |= dict.fromkeys(in_file, str(settings_file.path))
        try:
            settings = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else "bm25_weight"
            field = "root" if field in _ROOT_NAMES else field
            names = " / ".join(filter(None, [flag(field), variable(field)]))
            if settings_file is not None and origins.get(field) == str(settings_file.path):
                names = f"{settings_file.path}: {field}"
            message = _MESSAGES.get(first["type"], first["msg"]).removeprefix("Value error, ")
            raise SettingsError(names, message) from None
        settings._origins = origins
        settings._is_found = named is None and settings_file is not None
        return settings

    @property
    def deletes_usage(self) -> bool:
        """Whether an existing usage record has to be deleted.

        A settings file that was found rather than named may be a stranger's: it can switch
        recording off, but deletes nothing.
        """
        by_found_file = self._is_found and self._origins.get("usage_log", "").endswith(".toml")
        return not self.usage_log and not by_found_file

    @property
    def origins(self) -> Mapping[str, str]:
        """The sources of settings without their default value: a flag, a variable or a file."""
        return self._origins


def _identity(roots: Roots) -> str:
    # In one index, processes with different layouts would undo each other's work.
    return f"{roots.full_names}{roots.other_layouts}"


def _cached_copy(server: Address, files: str) -> Path:
    from hashlib import sha256

    from platformdirs import user_cache_path

    key = sha256(os.fsencode(f"{server}\n{files}")).hexdigest()[:12]
    name = "".join(char if char.isascii() and char.isalnum() else "_" for char in server.tree)
    return user_cache_path("pytools-hybrid") / f"{name[:_MOST_OF_NAME]}-{key}.shared.db"


def tuned_path(database: Path) -> Path:
    """Return the path of the tuning file beside an index."""
    return database.with_name(f"{database.name}-tuned")


def flag(name: str) -> str | None:
    """Return the flag of a setting, or None."""
    return _FLAGS.get(variable(name))


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return "PYTOOLS_DIR" if name == "root" else f"{PREFIX}{name.upper()}"


def _named_file() -> Path | None:
    named = os.environ.get(CONFIG_VARIABLE)
    if not named:
        return None
    try:
        return Path(named).expanduser()
    except RuntimeError:
        return Path(named)


def _found_file() -> Path | None:
    # In a folder that was removed there is nothing to find.
    with suppress(FileNotFoundError):
        return find_settings_file(Path.cwd())
    return None


def _refuse_widening(file: SettingsFile) -> None:
    for name, value in file.values.items():
        if not is_allowed_in_found(name, value):
            raise SettingsError(
                f"{file.path}: {name}",
                "is only allowed in a file that is named explicitly, as by "
                f"{CONFIG_VARIABLE}={file.path}; or remove it there, and set {variable(name)}",
            )
