"""Settings: flags over environment variables over defaults, read once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from pytools_hybrid.embedding import MODEL_NAME, is_known_provider
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.language_models import check_model_name

__all__ = ["DEFAULT_MODEL", "Settings"]

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
    "PYTOOLS_INCLUDE": "--include",
    "PYTOOLS_EXCLUDE": "--exclude",
    "PYTOOLS_TOOLS": "--tools",
    "PYTOOLS_TRANSPORT": "--transport",
    "PYTOOLS_HOST": "--host",
    "PYTOOLS_PORT": "--port",
    "PYTOOLS_TOKEN": "--token",
    "PYTOOLS_ALLOWED_HOSTS": "--allowed-host",
    "PYTOOLS_RERANK_MODEL": "--rerank",
}
_COLONS = 2
_PREFIX = "PYTOOLS_"
# NoDecode: not as JSON, but as names with commas between them.
_Names = Annotated[tuple[str, ...], NoDecode]
_PLAIN_MODELS = (DEFAULT_MODEL, "test", "none")


class Settings(BaseSettings):
    """Everything that can be set, with its default.

    Each field is also an environment variable, `PYTOOLS_` and the name in capitals; the
    root is `PYTOOLS_DIR`.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
    )

    root: Path | None = Field(None, validation_alias="PYTOOLS_DIR")
    db_path: Path | None = None
    embedding_model: str = DEFAULT_MODEL
    embedding_dim: int | None = Field(None, ge=1, le=8192)
    embedding_requests_per_minute: float | None = Field(None, gt=0, le=1_000_000)
    outside_links: bool = False
    sync: bool = True
    watch: bool = True
    bm25_weight: float = Field(1.0, ge=0, le=1000)
    vec_weight: float = Field(1.0, ge=0, le=1000)
    fusion: Literal["linear", "rrf"] = "linear"
    usage_log: bool = True
    rerank_model: str | None = None
    include: _Names = ()
    exclude: _Names = ()
    tools: Literal["search", "basic", "all"] = "search"
    transport: Literal["stdio", "http"] = "stdio"
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    token: SecretStr | None = None
    allowed_hosts: _Names = ()
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"

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

    @field_validator("root", "db_path")
    @classmethod
    def _is_a_path(cls, value: Path | None) -> Path | None:
        if value is None:
            return None
        try:
            return value.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{value} names a home folder that is not known") from error

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

    def resolved_root(self) -> tuple[Path, str | None]:
        """Decide which tree of tools to use.

        Returns:
            The root, and a sentence that says why it was chosen when nobody named it.

        Raises:
            SettingsError: Nothing was named and no default exists.
        """
        if self.root is not None:
            return self.root, None
        if _FREEACT_ROOT.is_dir():
            return _FREEACT_ROOT, f"using {_FREEACT_ROOT} (no --root or PYTOOLS_DIR given)"
        if _EXAMPLES_ROOT.is_dir():
            return _EXAMPLES_ROOT, (
                f"using the example tools in {_EXAMPLES_ROOT} (no --root or PYTOOLS_DIR given, "
                f"and {_FREEACT_ROOT} does not exist)"
            )
        raise SettingsError(
            "--root",
            "no tools to search: no --root or PYTOOLS_DIR given, and neither "
            f"{_FREEACT_ROOT} nor {_EXAMPLES_ROOT} exists in {Path.cwd()}",
        )

    def resolved_database(self, root: Path) -> Path:
        """Decide where the index of a root is kept.

        Without a setting it is in the user's cache folder, under the root's full path, so
        that trees are not littered and may be read-only; freeact's root keeps freeact's place.
        """
        if self.db_path is not None:
            return self.db_path
        if Path(os.path.abspath(root)).parts[-2:] == _FREEACT_ROOT.parts:  # noqa: PTH100
            return root.parent / _FREEACT_DATABASE
        from hashlib import sha256

        from platformdirs import user_cache_path

        full = os.path.realpath(root)
        key = sha256(os.fsencode(full)).hexdigest()[:12]
        name = Path(full).name.encode("ascii", "replace").decode().replace("?", "_")
        return user_cache_path("pytools-hybrid") / f"{name}-{key}.db"

    @classmethod
    def unknown_variables(cls) -> dict[str, str]:
        """Give the variables of the environment that look like settings and are none.

        Returns:
            The nearest setting by variable, or an empty string where none is near.
        """
        fields = [f"{_PREFIX}{name.upper()}" for name in cls.model_fields]
        known = {*fields, "PYTOOLS_DIR"}
        given = (name for name in os.environ if name.upper().startswith(_PREFIX))
        unknown = sorted(name for name in given if name.upper() not in known)
        if not unknown:
            return {}
        # Not at every start.
        from difflib import get_close_matches

        return {
            name: next(iter(get_close_matches(name.upper(), known, n=1)), "") for name in unknown
        }

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> Self:
        """Build settings from the flags that were given (not None); the rest as documented.

        Raises:
            SettingsError: A value that cannot work.
        """
        given = {name: value for name, value in flags.items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else "bm25_weight"
            variable = "PYTOOLS_DIR" if field in _ROOT_NAMES else f"PYTOOLS_{field.upper()}"
            names = [*filter(None, [_FLAGS.get(variable)]), variable]
            message = first["msg"].removeprefix("Value error, ")
            raise SettingsError(" / ".join(names), message) from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
