"""Every setting, with its default, its limits and its purpose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    FieldSerializationInfo,
    InstanceOf,
    PlainSerializer,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from toolembed.providers import ACCURATE, OFFLINE, check_model_name, has_accurate_weights

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings import _language_models as language_models
from pytools_hybrid.settings._aliases import ALIASES, AliasError, resolved
from pytools_hybrid.settings._layouts import DEFAULT_LAYOUT_NAMES, parsed_layouts
from pytools_hybrid.settings._roots import Roots
from pytools_hybrid.settings._server import Server, parsed_database

if TYPE_CHECKING:
    from pydantic import JsonValue

    _GivenPaths = os.PathLike[str] | tuple[object, ...]

__all__ = ["PREFIX", "SettingFields"]

PREFIX = "PYTOOLS_"
"""The prefix of environment variables."""

_COLONS = 2
_MOST_WEIGHT = 1000
# NoDecode: not JSON, but names separated by commas.
_Names = Annotated[tuple[str, ...], NoDecode]
# Here, paths separated as in PATH.
_Paths = Annotated[tuple[Path, ...], NoDecode]
# Here, `name=5,description=1`.
_Weights = Annotated[dict[str, float], NoDecode]


def _shown(value: object, info: FieldSerializationInfo) -> object:
    is_text = isinstance(value, Server) or (info.mode == "json" and value is not None)
    return str(value) if is_text else value


# A file, or a server; what is shown of that has no password.
_Database = Annotated[
    Path | InstanceOf[Server] | None,
    NoDecode,
    BeforeValidator(parsed_database),
    PlainSerializer(_shown),
]
_FIELDS = ("name", "description", "parameters", "category", "tags")


class _Environment(EnvSettingsSource):
    """Reads settings from environment variables, aliases included."""

    def __call__(self) -> dict[str, Any]:
        names = {alias: f"{PREFIX}{alias}".lower() for alias in ALIASES}
        found = {alias: self.env_vars.get(name) for alias, name in names.items()}
        try:
            return resolved(super().__call__() | {name: it for name, it in found.items() if it})
        except AliasError as error:
            raise SettingsError(f"{PREFIX}{error.alias.upper()}", str(error)) from None


class _Given(InitSettingsSource):
    """Reads settings from a program's arguments, aliases included."""

    def __call__(self) -> dict[str, Any]:
        try:
            return resolved(super().__call__())
        except AliasError as error:
            raise SettingsError(error.alias, str(error)) from None


class SettingFields(BaseSettings):
    """The fields of `Settings`."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        # One may be a token, or an address with a password.
        hide_input_in_errors=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources: arguments come before the environment, each under all names."""
        given = init_settings()
        return _Given(settings_cls, init_kwargs=given), _Environment(settings_cls)

    root: _Paths = Field(
        (),
        validation_alias="PYTOOLS_DIR",
        description="the trees of tools, in order of precedence; by default `tools`, "
        "`.freeact/generated` or `examples/tools`, whichever exists",
    )
    layouts: _Names = Field(
        DEFAULT_LAYOUT_NAMES,
        description="where tools are in a root: `mcptools`, `gentools`, `modules` "
        "(`<category>/<tool>.py`, without `run()`), `functions` (`<category>.py` with several "
        "functions), `packages` (`<category>/__init__.py`), or patterns of your own, such as "
        "`scripts=scripts/{category}/{name}.py`; without `{name}` a file holds several tools",
    )
    database: _Database = Field(
        None,
        description="the index: a file, by default one for each root in your cache folder "
        "(`.freeact/search.db` for freeact's root), or `postgresql://user@host/db?tree=NAME` for "
        "one that many hosts share",
    )
    embedding_model: str = Field(
        default_factory=lambda: ACCURATE if has_accurate_weights() else OFFLINE,
        description="`static` (comes with the installation, offline), `accurate` (larger, "
        "offline, an extra; the default where it is installed), `none`, `test` (for tests only: "
        "its vectors mean nothing), or a pydantic-ai model: `openai:…`, `google:…`, `cohere:…`, "
        "`voyageai:…`, `ollama:…`, `sentence-transformers:…`",
    )
    embedding_dim: int | None = Field(
        None, ge=1, le=8192, description="length of the vectors, if the model supports it"
    )
    embedding_requests_per_minute: float | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="maximum number of requests per minute to the provider",
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="where sentence-transformers models run: `cpu`, `cuda`, `cuda:1`, `mps`; "
        "`auto` selects the fastest",
    )
    outside_links: bool = Field(
        default=False,
        description="follow symbolic links that lead out of the root",
    )
    max_tools: int | None = Field(
        None,
        ge=1,
        description="maximum number of tools in the index: the first by id are kept; files that "
        "turn out not to be tools count too",
    )
    sync: bool = Field(default=True, description="bring the index up to date at the start")
    watch: bool = Field(default=True, description="follow the files while serving")
    bm25_weight: float = Field(1.0, ge=0, le=1000, description="weight of words; 0 turns them off")
    vec_weight: float = Field(1.0, ge=0, le=1000, description="weight of meaning; 0 turns it off")
    fusion: Literal["linear", "rrf"] = Field(
        "linear", description="how words and meaning are combined: by score, or by rank"
    )
    rrf_k: float = Field(
        60.0,
        ge=0,
        le=1_000_000,
        description="k of `rrf`: a larger value gives the first ranks less weight",
    )
    field_weights: _Weights = Field(
        {},
        description="how much words count in each part of a tool, such as "
        "`name=5,parameters=0.75`; defaults: name 5, parameters 0.75, description, category and "
        "tags 1",
    )
    tuning: Path | None = Field(
        None,
        description="what `pytools-hybrid tune` learned; by default the file beside the index, if "
        "there is one; `none` searches without",
    )
    threshold: float = Field(
        0.0,
        ge=0,
        le=1,
        description="default minimum confidence of a result; use 0.5 if a wrong tool is worse "
        "than none",
    )
    limit: int = Field(5, ge=1, le=50, description="default maximum number of results")
    rerank_model: str | None = Field(
        None, description="a pydantic-ai language model that orders the first results"
    )
    rerank_certain: float = Field(
        0.9,
        ge=0,
        le=1,
        description="reranking is skipped if the first score is above this; 1 never skips",
    )
    rerank_gap: float = Field(
        0.1,
        ge=0,
        le=1,
        description="reranking is skipped if the first score is more than this above the third; 1 "
        "never skips",
    )
    usage_log: bool = Field(
        default=True,
        description="keep a record of searches beside the index, on this machine only; `false` "
        "turns it off and deletes it (query vectors are still cached, by hash)",
    )
    include: _Names = Field(
        (),
        description="id patterns, such as `mcptools:github:*`: only these tools can be found, "
        "listed and described",
    )
    exclude: _Names = Field(
        (), description="id patterns: these tools cannot be found, listed or described"
    )
    tools: Literal["search", "call", "basic", "all"] = Field(
        "search", description="what `serve` offers to agents"
    )
    pin: _Names = Field(
        (), description="ids of tools that `serve --tools call` lists by their own names"
    )
    read_only: bool = Field(
        default=False,
        description="`serve --tools call` only calls tools that are annotated as read-only",
    )
    run_python: bool = Field(
        default=False,
        description="`serve --tools call` also runs Python tools, in a process of their own: any "
        "code of the tree",
    )
    python: Path | None = Field(
        None, description="the interpreter of Python tools; by default the one of this program"
    )
    python_memory: int = Field(
        2048, ge=64, description="the most MiB of memory of that process (not on Windows)"
    )
    confirm: _Names = Field(
        (),
        description="id patterns: `serve --tools call` asks the user before it calls these tools",
    )
    transport: Literal["stdio", "http"] = Field(
        "stdio", description="how clients connect to `serve`"
    )
    host: str = Field(
        "127.0.0.1",
        description="where it listens; any address but this machine's own requires a token",
    )
    port: int = Field(8000, ge=0, le=65535, description="the port; 0 selects a free one")
    token: SecretStr | None = Field(
        None,
        description=(
            "what clients send as `Authorization: Bearer …`; preferably set in the variable"
        ),
    )
    allowed_hosts: _Names = Field((), description="other host names that clients may use")
    console: bool = Field(
        default=True, description="whether `serve` over HTTP shows the console at `/`"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "WARNING", description="how much is logged to stderr"
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="whether stderr gets lines for people, or one JSON object a line"
    )

    @field_validator("embedding_model")
    @classmethod
    def _has_a_provider(cls, value: str) -> str:
        return check_model_name(value)

    @field_validator(
        "layouts", "include", "exclude", "allowed_hosts", "pin", "confirm", mode="before"
    )
    @classmethod
    def _with_commas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name for part in value.split(",") if (name := part.strip()))
        if not names:
            raise ValueError("it is empty; leave it out, or give names separated by commas")
        return names

    @field_validator("field_weights", mode="before")
    @classmethod
    def _with_signs(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",")]
        if not all(sign for _, sign, _ in pairs):
            raise ValueError("give weights as name=5,description=1")
        return {name.strip(): weight.strip() for name, _, weight in pairs}

    @field_validator("field_weights")
    @classmethod
    def _are_weights(cls, value: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(value.keys() - set(_FIELDS)):
            raise ValueError(f"there is no {unknown[0]!r}; there are {', '.join(_FIELDS)}")
        if not all(0 <= weight <= _MOST_WEIGHT for weight in value.values()):
            raise ValueError(f"a weight is a number from 0 to {_MOST_WEIGHT}")
        if len(value) == len(_FIELDS) and not any(value.values()):
            raise ValueError("all fields have weight 0, so no word would count; give one a weight")
        return value

    @field_validator("include", "exclude", "confirm")
    @classmethod
    def _can_match_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from toolindex import FilterError, ToolFilter

        for pattern in value:
            if not pattern:
                raise ValueError("a pattern is empty; is a shell variable not set?")
            # A pattern that matches nothing hides nothing: better not to start than to show too
            # much.
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

    @field_validator("pin")
    @classmethod
    def _are_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name.count(":") != _COLONS or set(name) & {"*", "?"}:
                raise ValueError(f"{name!r} is not an id, such as mcptools:github:create_issue")
        return tuple(dict.fromkeys(value))

    @field_validator("layouts")
    @classmethod
    def _are_layouts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("it is empty; leave it out, or name layouts")
        parsed_layouts(value)
        return value

    @field_validator("token")
    @classmethod
    def _can_be_sent(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        token = value.get_secret_value()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("use only ASCII letters, digits and punctuation, without spaces")
        return value

    @field_validator("rerank_model")
    @classmethod
    def _has_a_known_provider(cls, value: str | None) -> str | None:
        return None if value is None else language_models.check_model_name(value)

    @field_validator("root", mode="before")
    @classmethod
    def _one_or_several(cls, value: JsonValue | Roots | _GivenPaths) -> object:
        if value is None:
            return ()
        if isinstance(value, Roots):
            return value.paths
        if isinstance(value, os.PathLike):
            return (value,)
        if not isinstance(value, str):
            if not isinstance(value, list | tuple):
                raise ValueError("it is not a path; give a folder, or a list of folders")
            return value
        # A folder may have the separator in its name.
        if os.path.isdir(os.path.expanduser(value)):  # noqa: PTH111, PTH112 - any string may come
            return (value,)
        paths = tuple(part for part in value.split(os.pathsep) if part)
        if not paths:
            raise ValueError(f"it is empty; give paths with {os.pathsep!r} between them")
        return paths

    @field_validator("root")
    @classmethod
    def _are_paths(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_at_home(path) for path in value)

    @field_validator("database", "tuning")
    @classmethod
    def _is_a_path(cls, value: Path | Server | None) -> Path | Server | None:
        return _at_home(value) if isinstance(value, Path) else value

    @field_validator("database")
    @classmethod
    def _can_be_opened(cls, value: Path | Server | None) -> Path | Server | None:
        if isinstance(value, Path) and not _is_utf8(str(value)):
            raise ValueError("SQLite can only open UTF-8 paths")
        return value

    @model_validator(mode="after")
    def _have_a_channel(self) -> Self:
        if self.bm25_weight == 0 and self.vec_weight == 0:
            raise ValueError("bm25_weight or vec_weight must be above zero")
        return self

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_capitals(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value


def _at_home(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("a path cannot contain a null byte")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} names an unknown home folder") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
