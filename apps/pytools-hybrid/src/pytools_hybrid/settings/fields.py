"""Every setting: its names, default, limits and purpose, and how its values are read."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SecretStr,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from toolembed.providers import (
    InstallHints,
    check_model_name,
    check_provider,
    default_model,
    redact_keys,
)

from pytools_hybrid.installation import install_command
from pytools_hybrid.settings.roots import DEFAULT_LAYOUT_NAMES, Roots, parsed_layouts
from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic import FieldSerializationInfo, JsonValue, ValidationInfo
    from toolindex_postgres import Address
else:
    # It may not be installed; `_database` decides what is accepted.
    Address = object

PREFIX = "PYTOOLS_"
"""The prefix of environment variables."""

MAX_LIMIT = 50
"""The maximum number of results of a search."""

DEFAULT_LIMIT = 5
"""The number of results of a search without a limit."""

REMEDIES = InstallHints(
    distribution="pytools-hybrid",
    download="pytools-hybrid index --model {model} --download",
    device="set PYTOOLS_DEVICE=auto",
    install=install_command,
)
"""What errors about models suggest, as our own commands and settings."""

_COLONS = 2
_REASON_LENGTH = 300
_WEIGHTED = ("name", "description", "parameters", "category", "tags")
# `C:\\` is a drive.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://(?!\\)|postgres(ql)?:/", re.IGNORECASE)
# A misspelt address, or libpq's keywords, must not become a file with a password in its name.
_MEANT = re.compile(
    r"\s*(postgres(ql)?(:/|//)|(host|hostaddr|dbname|user|password)\s*=)|.*\spassword\s*="
    r"|.*\?(.*&)?tree=|[^/\s]+@[^/\s]+/[^/.\s]+$",
    re.IGNORECASE | re.DOTALL,
)


# Paths, and the address of a server


def is_address(value: object) -> bool:
    """Return whether a value of the setting `database` is an address rather than a path."""
    return _SCHEME.match(str(value)) is not None


def _database(value: object) -> Path | Address | None:
    """Return a file, or the address of a server, which the package of an extra parses."""
    text = str(value)
    if value is None:
        return None
    if isinstance(value, str | Path) and not is_address(text) and not _MEANT.match(text):
        path = _at_home(Path(text))
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise ValueError("SQLite can only open UTF-8 paths") from None
        return path
    if find_spec("toolindex_postgres") is None:
        command = install_command("pytools-hybrid[postgres]")
        raise ValueError(f"an index on a server needs the extra postgres: {command}")
    from toolindex_postgres import Address

    if isinstance(value, Address):
        return value
    if not isinstance(value, str | Path):
        raise ValueError("give a path or an address")
    return Address.parse(text)


def _shown_database(value: object, info: FieldSerializationInfo) -> object:
    """Return where the index is, without the password of a server."""
    is_path = value is None or (isinstance(value, Path) and info.mode != "json")
    return value if is_path else str(value)


def _paths(value: JsonValue | Roots | os.PathLike[str] | tuple[object, ...]) -> object:
    """Split paths at the separator of PATH."""
    if value is None or isinstance(value, list | tuple):
        return value or ()
    if isinstance(value, Roots):
        return value.paths
    if not isinstance(value, str | os.PathLike):
        raise ValueError("it is not a path; give a folder, or a list of folders")
    # A folder may have the separator in its name.
    if isinstance(value, os.PathLike) or os.path.isdir(os.path.expanduser(value)):  # noqa: PTH111, PTH112 - any string may come
        return (value,)
    paths = tuple(part for part in value.split(os.pathsep) if part)
    if not paths:
        raise ValueError(f"it is empty; give paths with {os.pathsep!r} between them")
    return paths


def _at_home(path: Path) -> Path:
    """Return a path with the home folder filled in."""
    if "\0" in str(path):
        raise ValueError("a path cannot contain a null byte")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} names an unknown home folder") from error


# Names, ids and patterns


def _names(value: object) -> object:
    """Split names at commas."""
    if not isinstance(value, str):
        return value
    names = tuple(name for part in value.split(",") if (name := part.strip()))
    if not names:
        raise ValueError("it is empty; leave it out, or give names separated by commas")
    return names


def _layouts(value: tuple[str, ...]) -> tuple[str, ...]:
    parsed_layouts(value)
    return value


def _ids(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        if name.count(":") != _COLONS or set(name) & {"*", "?"}:
            raise ValueError(f"{name!r} is not an id, such as mcptools:github:create_issue")
    return tuple(dict.fromkeys(value))


def _patterns(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Return patterns that can match ids; one that can only match names or categories is extended.

    For example, `delete_*` becomes `*:*:delete_*`, and `github:delete_*` becomes
    `*:github:delete_*`.
    """
    from toolindex import ArgumentError, ToolFilter

    layouts = parsed_layouts(info.data.get("layouts", DEFAULT_LAYOUT_NAMES))
    patterns = tuple(_extended(pattern, {it.source for it in layouts}) for pattern in value)
    try:
        ToolFilter(include=patterns)
    except ArgumentError as error:
        raise ValueError(str(error)) from error
    return patterns


def _extended(pattern: str, sources: Collection[str]) -> str:
    if not pattern:
        raise ValueError("a pattern is empty; is a shell variable not set?")
    colons = pattern.count(":")
    begins = any(_may_begin(pattern, source) for source in sources)
    if colons == _COLONS or (colons < _COLONS and "*" in pattern and begins):
        return pattern
    is_literal = not set(pattern) & {"*", "?"}
    # A pattern that matches nothing hides nothing: better not to start than to show too much.
    if colons > _COLONS or (colons == 1 and begins) or (not colons and is_literal):
        spellings = {
            0: f", so write '*:{pattern}:*' for a category, '*:*:{pattern}' for a name",
            1: f", so write '{pattern}:*'",
        }
        raise ValueError(
            f"{pattern!r} matches no tool: ids are source:category:name{spellings.get(colons, '')}"
        )
    return "*:" * (_COLONS - colons) + pattern


def _may_begin(pattern: str, source: str) -> bool:
    """Return whether the part of a pattern before a `*` fits the beginning of a source's ids.

    Case is ignored: a source in the wrong case is a typing error, not the name of a tool.
    """
    head = pattern.partition("*")[0].lower()
    return all(it in {char, "?"} for it, char in zip(head, f"{source}:", strict=False))


# Models, weights and the token


def check_language_model(name: str) -> str:
    """Return the name of a language model; raise ValueError if its provider is unknown.

    Only the first use can tell whether the provider has the model, and whether there is a key.
    """
    provider, _, model = name.partition(":")
    if name != "test" and not (provider and model):
        raise ValueError(
            f"{name!r} names no provider; use PROVIDER:MODEL as in 'openai:gpt-5-mini'"
        )
    check_provider(name, converses=True)
    return name


def why_unusable(model: str, error: Exception) -> str:
    """Return why a language model could not be loaded, without keys, and what to do about it."""
    if isinstance(error.__cause__, ImportError):
        return REMEDIES.what_to_do(model, error.__cause__)
    # Hide keys before cutting the text, because half a key is not recognized.
    return one_line(redact_keys(str(error)), _REASON_LENGTH)


def shares(alpha: object) -> dict[str, float]:
    """Return the weights of words and meaning, of which `alpha` is that of meaning."""
    try:
        share = float(alpha) if isinstance(alpha, str | int | float) else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError("give a number from 0 (keywords only) to 1 (vectors only)")
    return {"bm25_weight": round(1 - share, 12), "vec_weight": share}


def _split_weights(value: object) -> object:
    """Split weights such as `name=5,description=1`."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",")]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("give weights as name=5,description=1")
    return {name.strip(): weight.strip() for name, _, weight in pairs}


def _check_weights(value: dict[str, float]) -> dict[str, float]:
    if unknown := sorted(value.keys() - set(_WEIGHTED)):
        raise ValueError(f"unknown field {unknown[0]!r}; use {', '.join(_WEIGHTED)}")
    if len(value) == len(_WEIGHTED) and not any(value.values()):
        raise ValueError("all fields have weight 0, so no word would count; give one a weight")
    return value


def _check_token(value: SecretStr | None) -> SecretStr | None:
    """Check that a header can carry a token."""
    token = "-" if value is None else value.get_secret_value()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("use only ASCII letters, digits and punctuation, without spaces")
    return value


def _in_capitals(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


_Weight = Annotated[float, Field(ge=0, le=1000)]
# NoDecode: not JSON, but names separated by commas.
_Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]
_Patterns = Annotated[_Names, AfterValidator(_patterns)]
_Path = Annotated[Path, AfterValidator(_at_home)]


class SettingFields(BaseSettings):
    """The fields of `Settings`.

    A setting with other names has `AliasChoices`, its own name first; the prefix is put before all
    of them in the environment.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=PREFIX,
        env_prefix_target="all",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        # One may be a token, or an address with a password.
        hide_input_in_errors=True,
    )

    root: Annotated[tuple[_Path, ...], NoDecode, BeforeValidator(_paths)] = Field(
        (),
        validation_alias=AliasChoices("root", "dir"),
        description="the trees of tools, in order of precedence; by default `tools`, "
        "`.freeact/generated` or `examples/tools`, whichever exists",
    )
    layouts: Annotated[_Names, AfterValidator(_layouts)] = Field(
        DEFAULT_LAYOUT_NAMES,
        description="where tools are in a root: `mcptools`, `gentools`, `modules` "
        "(`<category>/<tool>.py`, without `run()`), `functions` (`<category>.py` with several "
        "functions), `packages` (`<category>/__init__.py`), or patterns of your own, such as "
        "`scripts=scripts/{category}/{name}.py`; without `{name}` a file holds several tools",
    )
    database: Annotated[
        Path | Address | None,
        NoDecode,
        PlainValidator(_database),
        PlainSerializer(_shown_database),
    ] = Field(
        None,
        validation_alias=AliasChoices("database", "db_path"),
        description="the index: a file, by default one for each root in your cache folder "
        "(`.freeact/search.db` for freeact's root), or `postgresql://user@host/db?tree=NAME` for "
        "one that many hosts share",
    )
    embedding_model: Annotated[str, AfterValidator(check_model_name)] = Field(
        default_factory=default_model,
        validation_alias=AliasChoices("embedding_model", "model"),
        description="`static` (comes with the installation, offline), `accurate` (larger, "
        "offline, an extra; the default if it is installed), `none`, `test` (dummy vectors), or "
        "a pydantic-ai model: `openai:…`, `google:…`, `cohere:…`, "
        "`voyageai:…`, `ollama:…`, `sentence-transformers:…`",
    )
    embedding_dim: int | None = Field(
        None,
        validation_alias=AliasChoices("embedding_dim", "dimensions"),
        ge=1,
        le=8192,
        description="length of the vectors, if the model supports it",
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
    sync: bool = Field(default=True, description="update the index at startup")
    watch: bool = Field(
        default=True, description="update the index when files change while serving"
    )
    bm25_weight: _Weight = Field(1.0, description="weight of words; 0 turns them off")
    vec_weight: _Weight = Field(1.0, description="weight of meaning; 0 turns it off")
    fusion: Literal["linear", "rrf"] = Field(
        "linear", description="how words and meaning are combined: by score, or by rank"
    )
    rrf_k: float = Field(
        60.0,
        ge=0,
        le=1_000_000,
        description="k of `rrf`: a larger value gives the first ranks less weight",
    )
    field_weights: Annotated[
        dict[str, _Weight],
        NoDecode,
        BeforeValidator(_split_weights),
        AfterValidator(_check_weights),
    ] = Field(
        {},
        description="how much words count in each part of a tool, such as "
        "`name=5,parameters=0.75`; defaults: name 5, parameters 0.75, description, category and "
        "tags 1",
    )
    tuning: _Path | None = Field(
        None,
        description="what `pytools-hybrid tune` learned; by default the file beside the index, if "
        "there is one; `none` searches without",
    )
    threshold: float = Field(
        0.0,
        validation_alias=AliasChoices("threshold", "min_confidence"),
        ge=0,
        le=1,
        description="default minimum confidence of a result; use 0.5 if a wrong tool is worse "
        "than none",
    )
    limit: int = Field(
        DEFAULT_LIMIT,
        validation_alias=AliasChoices("limit", "top_k"),
        ge=1,
        le=MAX_LIMIT,
        description="default maximum number of results",
    )
    rerank_model: Annotated[str, AfterValidator(check_language_model)] | None = Field(
        None, description="a pydantic-ai language model that orders the first results"
    )
    rerank_certain: float = Field(
        0.9,
        ge=0,
        le=1,
        description="skip reranking if the first score is above this (1: never)",
    )
    rerank_gap: float = Field(
        0.1,
        ge=0,
        le=1,
        description="skip reranking if the first result leads the third by more than this (1: "
        "never)",
    )
    usage_log: bool = Field(
        default=True,
        description="keep a record of searches beside the index, or on the server of a shared "
        "index; `false` turns it off and deletes it, or only this host's part of a shared one "
        "(query vectors are still cached, by hash)",
    )
    include: _Patterns = Field(
        (),
        description="patterns of ids, such as `mcptools:github:*`, or of names, such as `get_*`: "
        "only these tools can be found, listed and described",
    )
    exclude: _Patterns = Field(
        (),
        description="patterns like those of `include`: these tools cannot be found, listed or "
        "described",
    )
    tools: Literal["search", "call", "basic", "all"] = Field(
        "search", description="tool profile of `serve`"
    )
    pin: Annotated[_Names, AfterValidator(_ids)] = Field(
        (), description="ids of tools that `serve --profile call` lists by their own names"
    )
    read_only: bool = Field(
        default=False,
        description="`serve --profile call` only calls tools that are annotated as read-only",
    )
    run_python: bool = Field(
        default=False,
        description="`serve --profile call` also runs Python tools, in a separate process: this "
        "can run any code in the root",
    )
    python: Path | None = Field(
        None, description="the interpreter of Python tools; by default the one of this program"
    )
    python_memory: int = Field(
        2048, ge=64, description="maximum memory of that process, in MiB (not on Windows)"
    )
    confirm: _Patterns = Field(
        (),
        description="patterns like those of `include`: `serve --profile call` asks the user before "
        "it calls these tools",
    )
    transport: Literal["stdio", "http"] = Field(
        "stdio", description="how clients connect to `serve`"
    )
    host: str = Field(
        "127.0.0.1",
        description="the address to listen on; any but a loopback address requires a token",
    )
    port: int = Field(8000, ge=0, le=65535, description="the port; 0 selects a free one")
    token: Annotated[SecretStr | None, AfterValidator(_check_token)] = Field(
        None,
        description="what clients send as `Authorization: Bearer …`; preferably in the variable",
    )
    allowed_hosts: _Names = Field((), description="other host names that clients may use")
    console: bool = Field(default=True, description="serve the web console at `/`")
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_in_capitals)
    ] = Field("WARNING", description="how much is logged to stderr")
    log_format: Literal["text", "json"] = Field(
        "text", description="the format of stderr: lines for people, or one JSON object per line"
    )

    @model_validator(mode="before")
    @classmethod
    def _spread_alpha(cls, given: dict[str, Any]) -> dict[str, Any]:
        alpha = given.pop("alpha", os.environ.get(f"{PREFIX}ALPHA") or None)
        return given if alpha is None else shares(alpha) | given

    @model_validator(mode="after")
    def _have_a_channel(self) -> Self:
        if self.bm25_weight == 0 and self.vec_weight == 0:
            raise ValueError("bm25_weight or vec_weight must be above zero")
        return self


ALIASES: Mapping[str, tuple[str, ...]] = {
    alias: (name,)
    for name, field in SettingFields.model_fields.items()
    if isinstance(field.validation_alias, AliasChoices)
    for alias in map(str, field.validation_alias.choices[1:])
} | {"alpha": ("bm25_weight", "vec_weight")}
"""The settings of each alias; `alpha` is the weight of meaning, and 1 - `alpha` that of words."""

VARIABLES: Mapping[str, str] = {
    name: f"{PREFIX}{name.upper()}" for name in (*SettingFields.model_fields, *ALIASES)
}
"""The environment variable of each name of a setting."""


class AliasError(ValueError):
    """A setting and its alias have different values, or an alias has an invalid one."""

    def __init__(self, alias: str, message: str) -> None:
        super().__init__(message)
        self.alias = alias

    @classmethod
    def conflict(cls, alias: str, name: str) -> AliasError:
        """Return the error for two names with different values."""
        return cls(alias, f"is another name for {name}, and they differ; give one of them")


def renamed(given: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return the arguments of a call by their real names."""
    values = dict(given)
    for alias, (name, *_) in ALIASES.items():
        for other, own in ((alias, name), (name, alias)):
            if other in values and other not in fields and own in fields:
                value = values.pop(other)
                if own in values and values[own] != value:
                    raise AliasError.conflict(other, own)
                values[own] = value
    return values
