"""Settings: flags over environment variables over a file over defaults, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 - pydantic looks it up
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from pytools_hybrid.embedding import MODEL_NAME, is_known_provider
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.language_models import check_model_name
from pytools_hybrid.roots import Roots, RootsLike
from pytools_hybrid.settings_file import (
    CONFIG_VARIABLE,
    SettingsFile,
    find_settings_file,
    read_settings_file,
)

__all__ = ["DEFAULT_MODEL", "Settings", "flag", "variable"]

DEFAULT_MODEL = MODEL_NAME
"""The embedding model that comes with the installation and works offline."""

_FREEACT_ROOT = Path(".freeact/generated")
_FREEACT_DATABASE = "search.db"
_EXAMPLES_ROOT = Path("examples/tools")
_ROOT_NAMES = ("root", "PYTOOLS_DIR")
_FLAGS = {
    "PYTOOLS_DIR": "--root",
    "PYTOOLS_DB_PATH": "--db",
    "PYTOOLS_EMBEDDING_MODEL": "--embedding-model",
    "PYTOOLS_DEVICE": "--device",
    "PYTOOLS_LIMIT": "--limit",
    "PYTOOLS_THRESHOLD": "--threshold",
    "PYTOOLS_INCLUDE": "--include",
    "PYTOOLS_EXCLUDE": "--exclude",
    "PYTOOLS_TOOLS": "--tools",
    "PYTOOLS_TRANSPORT": "--transport",
    "PYTOOLS_HOST": "--host",
    "PYTOOLS_PORT": "--port",
    "PYTOOLS_TOKEN": "--token",
    "PYTOOLS_ALLOWED_HOSTS": "--allowed-host",
    "PYTOOLS_RERANK_MODEL": "--rerank",
    "PYTOOLS_LOG_LEVEL": "--log-level",
}
# Nobody who guesses it shall be told that it is nothing.
_OTHER_ROOT = "PYTOOLS_ROOT"
# Read by others than `Settings`: which file, and by the modules that `import` makes.
_OTHER_VARIABLES = (CONFIG_VARIABLE, _OTHER_ROOT, "PYTOOLS_SERVERS", "PYTOOLS_CALL_TIMEOUT")
_ANSWERS = "PYTOOLS_INPUT_"
_EXPOSING = ("transport", "host", "token", "allowed_hosts", "outside_links")
_COLONS = 2
_PREFIX = "PYTOOLS_"
# NoDecode: not as JSON, but as names with commas between them.
_Names = Annotated[tuple[str, ...], NoDecode]
# And as paths, with what PATH has between them.
_Paths = Annotated[tuple[Path, ...], NoDecode]
_PLAIN_MODELS = (DEFAULT_MODEL, "test", "none")


class Settings(BaseSettings):
    """Everything that can be set, with its default.

    Each field is also an environment variable, `PYTOOLS_` and the name in capitals (the root is
    `PYTOOLS_DIR`), and a key of a settings file. `Settings()` reads the environment,
    `from_flags` the file as well.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
    )

    root: _Paths = Field(
        (),
        validation_alias="PYTOOLS_DIR",
        description="the trees of tools, in order of precedence; without any, "
        "`.freeact/generated`, else `examples/tools`",
    )
    db_path: Path | None = Field(
        None,
        description="the index; without it, one file for each root in your cache folder "
        "(`.freeact/search.db` for freeact's root)",
    )
    embedding_model: str = Field(
        DEFAULT_MODEL,
        description="`wordllama` (comes with the installation, offline), `none`, `test` (for tests "
        "only: its vectors mean nothing), or a model of pydantic-ai: `openai:…`, `google:…`, "
        "`cohere:…`, `voyageai:…`, `ollama:…`, `sentence-transformers:…`",
    )
    embedding_dim: int | None = Field(
        None, ge=1, le=8192, description="length of the vectors, where a model lets one choose"
    )
    embedding_requests_per_minute: float | None = Field(
        None, gt=0, le=1_000_000, description="how often a provider is asked at most"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="where models of sentence-transformers run: `cpu`, `cuda`, `cuda:1`, `mps`; "
        "`auto` takes the fastest there is",
    )
    outside_links: bool = Field(
        default=False,
        description="tools that symbolic links lead to outside of the root count too",
    )
    sync: bool = Field(default=True, description="bring the index up to date at the start")
    watch: bool = Field(default=True, description="follow the files while serving")
    bm25_weight: float = Field(1.0, ge=0, le=1000, description="weight of words; 0 switches off")
    vec_weight: float = Field(1.0, ge=0, le=1000, description="weight of meaning; 0 switches off")
    fusion: Literal["linear", "rrf"] = Field(
        "linear", description="how words and meaning become one ranking: by strength, or by rank"
    )
    threshold: float = Field(
        0.0,
        ge=0,
        le=1,
        description="the confidence that a result must have, where a search does not say; 0.5 is "
        "good where a wrong tool is worse than none",
    )
    limit: int = Field(5, ge=1, le=50, description="results at most, where a search does not say")
    rerank_model: str | None = Field(
        None, description="a language model of pydantic-ai that orders the first results"
    )
    usage_log: bool = Field(
        default=True,
        description="keep a record of searches in the index, on this machine only; `false` keeps "
        "none and deletes what there is (vectors of queries are kept, under hashes)",
    )
    include: _Names = Field(
        (),
        description="patterns of ids, as `mcptools:github:*`: only these tools can be found, "
        "listed and described",
    )
    exclude: _Names = Field((), description="patterns of ids: these tools cannot")
    tools: Literal["search", "basic", "all"] = Field(
        "search", description="what `serve` offers to agents"
    )
    transport: Literal["stdio", "http"] = Field("stdio", description="how `serve` is reached")
    host: str = Field(
        "127.0.0.1",
        description="where it listens; any address but this machine's own demands a token",
    )
    port: int = Field(8000, ge=0, le=65535, description="its port; 0 takes a free one")
    token: SecretStr | None = Field(
        None, description="what clients send as `Authorization: Bearer …`; best in the variable"
    )
    allowed_hosts: _Names = Field((), description="further names by which it may be addressed")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "WARNING", description="how much is told on stderr"
    )

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("embedding_model")
    @classmethod
    def _has_a_provider(cls, value: str) -> str:
        if value not in _PLAIN_MODELS and not all(value.partition(":")):
            raise ValueError(
                f"{value!r} names no provider; use PROVIDER:MODEL as in "
                f"'openai:text-embedding-3-small', or one of {', '.join(_PLAIN_MODELS)}"
            )
        if ":" in value and not is_known_provider(value):
            raise ValueError(f"pydantic-ai knows no provider of {value!r}; check its name")
        return value

    @field_validator("include", "exclude", "allowed_hosts", mode="before")
    @classmethod
    def _with_commas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name for part in value.split(",") if (name := part.strip()))
        if not names:
            raise ValueError("it names nothing; leave it out, or give names with commas between")
        return names

    @field_validator("include", "exclude")
    @classmethod
    def _can_match_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from toolindex import FilterError, ToolFilter

        for pattern in value:
            if not pattern:
                raise ValueError("a pattern is empty; is a variable of the shell not set?")
            # What matches nothing hides nothing: better not to start than to show too much.
            if pattern.count(":") != _COLONS and not set(pattern) & {"*", "?"}:
                raise ValueError(
                    f"{pattern!r} matches no tool: ids are source:category:name, so write "
                    f"'*:{pattern}:*' for a category, '*:*:{pattern}' for a name"
                )
        try:
            ToolFilter(include=value)
        except FilterError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("token")
    @classmethod
    def _can_be_sent(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        token = value.get_secret_value()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("give letters, digits and signs of ASCII, without spaces")
        return value

    @field_validator("rerank_model")
    @classmethod
    def _has_a_known_provider(cls, value: str | None) -> str | None:
        return None if value is None else check_model_name(value)

    @field_validator("root", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        if value is None:
            return ()
        if isinstance(value, Roots):
            return value.paths
        if isinstance(value, os.PathLike):
            return (value,)
        if not isinstance(value, str):
            if not isinstance(value, list | tuple):
                raise ValueError("it is no path; give a folder, or several as a list")
            return value
        # A folder may well have the separator in its name.
        if os.path.isdir(os.path.expanduser(value)):  # noqa: PTH111, PTH112 - any string may come
            return (value,)
        paths = tuple(part for part in value.split(os.pathsep) if part)
        if not paths:
            raise ValueError(f"it names no folder; give paths with {os.pathsep!r} between them")
        return paths

    @field_validator("root")
    @classmethod
    def _are_paths(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_at_home(path) for path in value)

    @field_validator("db_path")
    @classmethod
    def _is_a_path(cls, value: Path | None) -> Path | None:
        return None if value is None else _at_home(value)

    @field_validator("db_path")
    @classmethod
    def _can_be_opened(cls, value: Path | None) -> Path | None:
        if value is not None and not _is_utf8(str(value)):
            raise ValueError("SQLite opens only paths that are UTF-8")
        return value

    @model_validator(mode="after")
    def _have_a_channel(self) -> Self:
        if self.bm25_weight == 0 and self.vec_weight == 0:
            raise ValueError("one of bm25_weight and vec_weight must be above zero")
        return self

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_capitals(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @property
    def follows_files(self) -> bool:
        """Whether the index is this process's to keep; else it is searched as others made it."""
        return self.sync or self.watch

    def resolved_root(self) -> tuple[Roots, str | None]:
        """Decide which tree of tools to use, or which several.

        Returns:
            The roots, and a sentence that says why one was chosen when nobody named any.

        Raises:
            SettingsError: Nothing was named and no default exists.
        """
        if self.root:
            return Roots.of(self.root), None
        if _FREEACT_ROOT.is_dir():
            return Roots.of(
                _FREEACT_ROOT
            ), f"using {_FREEACT_ROOT} (no --root or PYTOOLS_DIR given)"
        if _EXAMPLES_ROOT.is_dir():
            return Roots.of(_EXAMPLES_ROOT), (
                f"using the example tools in {_EXAMPLES_ROOT} (no --root or PYTOOLS_DIR given, "
                f"and {_FREEACT_ROOT} does not exist)"
            )
        raise SettingsError(
            "--root",
            "no tools to search: no --root or PYTOOLS_DIR given, and neither "
            f"{_FREEACT_ROOT} nor {_EXAMPLES_ROOT} exists in {Path.cwd()}",
        )

    def resolved_database(self, root: RootsLike) -> Path:
        """Decide where the index of a root is kept, or of several roots in their order.

        Without a setting it is in the user's cache folder, under the root's full path, so
        that trees are not littered and may be read-only; freeact's root keeps freeact's place.
        """
        if self.db_path is not None:
            return self.db_path
        roots = Roots.of(root)
        first, *others = roots
        is_freeacts = Path(os.path.abspath(first)).parts[-2:] == _FREEACT_ROOT.parts  # noqa: PTH100
        if is_freeacts and not others:
            return first.parent / _FREEACT_DATABASE
        from hashlib import sha256

        from platformdirs import user_cache_path

        key = sha256(os.fsencode(roots.full_names)).hexdigest()[:12]
        name = Path(os.path.realpath(first)).name.encode("ascii", "replace").decode()
        more = f"+{len(others)}" if others else ""
        return user_cache_path("pytools-hybrid") / f"{name.replace('?', '_')}{more}-{key}.db"

    @classmethod
    def unknown_variables(cls) -> dict[str, str]:
        """Give the variables of the environment that look like settings and are none.

        Returns:
            The nearest setting by variable, or an empty string where none is near.
        """
        known = {*map(variable, cls.model_fields), *_OTHER_VARIABLES}
        given = (name for name in os.environ if name.upper().startswith(_PREFIX))
        unknown = sorted(
            name
            for name in given
            if name.upper() not in known and not name.upper().startswith(_ANSWERS)
        )
        if not unknown:
            return {}
        # Not at every start.
        from difflib import get_close_matches

        return {
            name: next(iter(get_close_matches(name.upper(), known, n=1)), "") for name in unknown
        }

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], *, file: Path | None = None) -> Self:
        """Build settings: the flags, then the environment, then a file, then the defaults.

        Args:
            flags: Settings by name; what is None or empty was not given.
            file: The settings file; None for what `PYTOOLS_CONFIG` names, or else the nearest
                `pytools.toml`, or `pyproject.toml` with a table `[tool.pytools]`, of the current
                folder and those above it.

        Raises:
            SettingsError: A value that cannot work, a file that cannot be read, or one that was
                found and not named, and says to whom this machine is open.
        """
        given = {name: value for name, value in flags.items() if value not in (None, [], ())}
        set_variables = {name.upper() for name, value in os.environ.items() if value}
        origins = {
            name: variable(name) for name in cls.model_fields if variable(name) in set_variables
        } | {name: flag(name) or "the caller" for name in given}
        if _OTHER_ROOT in set_variables:
            origins.setdefault("root", _OTHER_ROOT)
        named = file or _named_file()
        path = named or _found_file()
        settings_file = None if path is None else read_settings_file(path, known=cls.model_fields)
        if settings_file is not None:
            if named is None:
                _refuse_exposure(settings_file)
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
            raise SettingsError(names, first["msg"].removeprefix("Value error, ")) from None
        settings._origins = origins
        return settings

    @property
    def origins(self) -> Mapping[str, str]:
        """Where settings come from that are not the defaults: a flag, a variable or a file."""
        return self._origins


def flag(name: str) -> str | None:
    """Give the flag of a setting, where it has one."""
    return _FLAGS.get(variable(name))


def variable(name: str) -> str:
    """Give the environment variable of a setting."""
    return "PYTOOLS_DIR" if name == "root" else f"{_PREFIX}{name.upper()}"


def _named_file() -> Path | None:
    named = os.environ.get(CONFIG_VARIABLE)
    if not named:
        return None
    try:
        return Path(named).expanduser()
    except RuntimeError:
        return Path(named)


def _found_file() -> Path | None:
    # Nobody can be in a folder that was removed and mean a file of it.
    with suppress(FileNotFoundError):
        return find_settings_file(Path.cwd())
    return None


def _refuse_exposure(file: SettingsFile) -> None:
    """Let no file that merely lies about open this machine to others: it may be a stranger's."""
    for name in _EXPOSING:
        if name in file.values:
            raise SettingsError(
                f"{file.path}: {name}",
                f"counts only in a file that is named, as by {CONFIG_VARIABLE}={file.path}",
            )


def _at_home(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("no path can hold a null byte")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} names a home folder that is not known") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
