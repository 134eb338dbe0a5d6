"""Every setting, with its default, its limits and its purpose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SecretStr,
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
from toolembed.providers import check_model_name, default_model

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings import _values as values
from pytools_hybrid.settings._aliases import ALIASES, AliasError, resolved
from pytools_hybrid.settings._layouts import DEFAULT_LAYOUT_NAMES
from pytools_hybrid.settings._server import parsed_database

if TYPE_CHECKING:
    from toolindex_postgres import Address
else:
    # It may not be installed; `parsed_database` decides what is accepted.
    Address = object

PREFIX = "PYTOOLS_"
"""The prefix of environment variables."""

MAX_LIMIT = 50
"""The maximum number of results of a search."""

DEFAULT_LIMIT = 5
"""The number of results of a search without a limit."""

# NoDecode: not JSON, but names separated by commas.
_Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(values.split_names)]
_Patterns = Annotated[_Names, AfterValidator(values.check_patterns)]
# Here, paths separated as in PATH.
_Paths = Annotated[
    tuple[Path, ...],
    NoDecode,
    BeforeValidator(values.split_paths),
    AfterValidator(values.expand_homes),
]
# Here, `name=5,description=1`.
_Weights = Annotated[
    dict[str, float],
    NoDecode,
    BeforeValidator(values.split_weights),
    AfterValidator(values.check_weights),
]
# A file, or a server, which is shown without its password.
_Database = Annotated[
    Path | Address | None,
    NoDecode,
    PlainValidator(parsed_database),
    AfterValidator(values.check_database),
    PlainSerializer(values.shown_database),
]


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
    layouts: Annotated[_Names, AfterValidator(values.check_layouts)] = Field(
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
    embedding_model: Annotated[str, AfterValidator(check_model_name)] = Field(
        default_factory=default_model,
        description="`static` (comes with the installation, offline), `accurate` (larger, "
        "offline, an extra; the default if it is installed), `none`, `test` (for tests only: "
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
    sync: bool = Field(default=True, description="bring the index up to date at the start")
    watch: bool = Field(
        default=True, description="update the index when files change while serving"
    )
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
    tuning: Annotated[Path | None, AfterValidator(values.expand_home)] = Field(
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
    limit: int = Field(
        DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="default maximum number of results"
    )
    rerank_model: Annotated[str | None, AfterValidator(values.check_language_model)] = Field(
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
        "search", description="what `serve` offers to agents"
    )
    pin: Annotated[_Names, AfterValidator(values.check_ids)] = Field(
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
    token: Annotated[SecretStr | None, AfterValidator(values.check_token)] = Field(
        None,
        description=(
            "what clients send as `Authorization: Bearer …`; preferably set in the variable"
        ),
    )
    allowed_hosts: _Names = Field((), description="other host names that clients may use")
    console: bool = Field(
        default=True, description="whether `serve` over HTTP shows the console at `/`"
    )
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(values.in_capitals)
    ] = Field("WARNING", description="how much is logged to stderr")
    log_format: Literal["text", "json"] = Field(
        "text", description="the format of stderr: lines for people, or one JSON object per line"
    )

    @model_validator(mode="after")
    def _have_a_channel(self) -> Self:
        if self.bm25_weight == 0 and self.vec_weight == 0:
            raise ValueError("bm25_weight or vec_weight must be above zero")
        return self
