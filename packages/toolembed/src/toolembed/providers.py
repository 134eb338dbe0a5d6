"""The model providers of pydantic-ai, what to install for each, and the advice in error messages.

pydantic-ai is an extra, which our own models do not need. `PROVIDERS` is the only table of what is
known without importing it. pydantic-ai supports more providers, and is asked about those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolembed._errors import redact_keys as redact_keys
from toolembed._protocols import EmbeddingLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = [
    "PROVIDERS",
    "InstallHints",
    "check_model_name",
    "check_provider",
    "current_name",
    "default_model",
    "redact_keys",
]

ACCURATE_WEIGHTS = "toolembed_accurate"
TEST_MODEL = "test"
_OURS = ("static", "accurate", "none")
# A prefix of a provider's name; it accepts what that provider accepts.
_GATEWAY = "gateway/"
_COMPARED = 100

# Less than most providers accept: more saves no time, and a kill loses requests in flight.
_BATCH = 64
_LOCAL = EmbeddingLimits(texts_per_request=_BATCH)
_REMOTE = EmbeddingLimits(texts_per_request=_BATCH, concurrency=2)
# The modules that each extra installs.
_MODULES = {
    "openai": ("openai", "tiktoken"),
    "google": ("google.genai",),
    "cohere": ("cohere",),
    "voyageai": ("voyageai",),
    "sentence-transformers": ("sentence_transformers", "torch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What is known about a provider without importing pydantic-ai.

    Attributes:
        extra: The extra of toolembed that installs what it needs; empty if there is none.
        has_own_extra: Whether pydantic-ai-slim has an extra of its name.
        now: Its current name, if this one is outdated.
        embeds: Whether it is commonly used for embedding models.
        converses: Whether it is commonly used for language models.
        limits: The limits of its embedding models, from its documentation; at most two batches are
            in progress at once.
        models: Names of its common embedding models, the most common one first.
        key_variables: The environment variables that may have its key.
    """

    extra: str = ""
    has_own_extra: bool = False
    now: str = ""
    embeds: bool = True
    converses: bool = True
    limits: EmbeddingLimits = _REMOTE
    models: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that its extra installs."""
        return _MODULES.get(self.extra, ())

    @property
    def is_installable(self) -> bool:
        """Whether it is known which extra it needs."""
        return bool(self.extra) or self.has_own_extra


PROVIDERS = {
    "openai": Provider(
        extra="openai",
        # 2,048 texts and 300,000 tokens in a request, 8,191 tokens in a text.
        limits=replace(_REMOTE, tokens_per_request=300_000, tokens_per_text=8_191),
        models=("text-embedding-3-small", "text-embedding-3-large"),
        key_variables=("OPENAI_API_KEY",),
    ),
    "openai-chat": Provider(extra="openai", embeds=False),
    "openai-responses": Provider(extra="openai", embeds=False),
    "azure": Provider(extra="openai"),
    "deepseek": Provider(extra="openai"),
    # It runs a local model, one request after the other.
    "ollama": Provider(extra="openai", limits=_LOCAL, models=("nomic-embed-text",)),
    "google": Provider(
        extra="google",
        # 100 texts in a request (BatchEmbedContents), 2,048 tokens in a text.
        limits=replace(_REMOTE, tokens_per_text=2_048),
        models=("gemini-embedding-001",),
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    "google-cloud": Provider(
        extra="google",
        # 250 texts and 20,000 tokens in a request, 2,048 tokens in a text.
        limits=replace(_REMOTE, tokens_per_request=20_000, tokens_per_text=2_048),
    ),
    "google-gla": Provider(extra="google", now="google"),
    "google-vertex": Provider(extra="google", now="google-cloud"),
    # 96 texts in a request; what is too long for the model is cut off by the provider.
    "cohere": Provider(extra="cohere", models=("embed-v4.0",), key_variables=("CO_API_KEY",)),
    "voyageai": Provider(
        extra="voyageai",
        converses=False,
        # 1,000 texts in a request, 120,000 tokens for the largest models, 32,000 tokens in a text
        # (16,000 for some).
        limits=replace(_REMOTE, tokens_per_request=120_000, tokens_per_text=16_000),
        models=("voyage-4-lite", "voyage-4"),
        key_variables=("VOYAGE_API_KEY",),
    ),
    "sentence-transformers": Provider(
        extra="sentence-transformers",
        converses=False,
        limits=_LOCAL,
        models=("all-MiniLM-L6-v2",),
    ),
    "bedrock": Provider(
        has_own_extra=True,
        # 96 texts for Cohere's models; Amazon's take one text of 8,192 tokens at a time, and
        # pydantic-ai sends five such requests at once for one of ours.
        limits=EmbeddingLimits(texts_per_request=_BATCH, tokens_per_text=8_192),
    ),
    "alibaba": Provider(
        embeds=False,
        converses=False,
        # 10 texts in a request.
        limits=EmbeddingLimits(texts_per_request=10, tokens_per_text=8_192, concurrency=4),
    ),
    TEST_MODEL: Provider(embeds=False, converses=False, limits=EmbeddingLimits()),
    **dict.fromkeys(
        ("anthropic", "groq", "huggingface", "mistral", "openrouter", "xai"),
        Provider(has_own_extra=True, embeds=False),
    ),
}
"""The providers by the name before the colon in a model's name."""

_NO_PROVIDER = Provider()
_GEMINI_2 = "google-cloud:gemini-embedding-2"
# One text in a request, which the SDK checks; 8,192 tokens in it.
_GEMINI_2_LIMITS = EmbeddingLimits(texts_per_request=1, tokens_per_text=8_192, concurrency=4)


def _install(*wanted: str) -> str:
    return " ".join(["install", *(f'"{each}"' for each in wanted)])


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallHints:
    """The advice in errors, as commands and settings of the program that people use.

    Attributes:
        distribution: The distribution whose extras install what providers need; it must have the
            extras of toolembed.
        download: The command that downloads a model of sentence-transformers: `{model}` stands for
            its name, and `{repository}` for its repository on the Hugging Face hub.
        device: How to choose a device.
        install: Returns how to install some requirements, such as a command.
    """

    distribution: str = "toolembed"
    download: str = "hf download {repository}"
    device: str = "set device to 'auto'"
    install: Callable[..., str] = _install

    def to_install(self, model: str) -> str:
        """Return how to install what a model needs."""
        provider = provider_of(model)
        extra = model if model == "accurate" else provider.extra or "pydantic-ai"
        wanted = [f"{self.distribution}[{extra}]"]
        if provider.has_own_extra:
            wanted.append(f"pydantic-ai-slim[{_name(model)}]")
        return self.install(*wanted)

    def missing(self, model: str) -> str:
        """Return a message that a model's package is missing, with the command that installs it."""
        # Only pydantic-ai knows whether a provider of another name exists.
        if ":" not in model or provider_of(model).is_installable:
            return f"its package is missing; {self.to_install(model)}"
        known = [name for name, provider in PROVIDERS.items() if provider.is_installable]
        hint = did_you_mean(_name(model), known)
        return f"its package is missing, or its provider misspelt{hint}; {self.to_install(model)}"

    def what_to_do(self, model: str, error: ImportError) -> str:
        """Return what a failed model lacks, and the remedy."""
        if find_spec("pydantic_ai") is not None and not provider_of(model).is_installable:
            # Only pydantic-ai knows which package it is.
            return str(error).partition("\n")[0]
        return self.missing(model)

    def not_here(self, error: ImportError) -> ImportError:
        """Return the error of a module that needs pydantic-ai if that is missing."""
        return ModuleNotFoundError(
            f"this module is for pydantic-ai, which is an extra; {self.to_install('')}",
            name=error.name,
        )


def default_model() -> str:
    """Return `accurate` if its weights are installed (the extra), else `static`."""
    return "static" if find_spec(ACCURATE_WEIGHTS) is None else "accurate"


def provider_of(model: str) -> Provider:
    """Return what is known about a model's provider, even behind a gateway."""
    return PROVIDERS.get(_name(model), _NO_PROVIDER)


def current_name(model: str) -> str:
    """Return a model's name with the current name of its provider."""
    provider, colon, name = model.partition(":")
    known = PROVIDERS.get(provider, _NO_PROVIDER)
    return f"{known.now or provider}{colon}{name}"


def limits_of(model_id: str, *, requests_per_minute: float | None = None) -> EmbeddingLimits:
    """Return a model's limits, by its provider and its name."""
    is_gemini_2 = model_id.removeprefix(_GATEWAY).startswith(_GEMINI_2)
    limits = _GEMINI_2_LIMITS if is_gemini_2 else provider_of(model_id).limits
    return replace(limits, requests_per_minute=requests_per_minute)


def check_model_name(name: str) -> str:
    """Return the name of an embedding model if its form is valid.

    Raises:
        ValueError: It names no provider.
    """
    if name not in (*_OURS, TEST_MODEL) and not all(name.partition(":")):
        alone = (*_OURS, TEST_MODEL)
        raise ValueError(
            f"{name!r} names no provider{did_you_mean(name, alone)}; use PROVIDER:MODEL as in "
            f"'openai:text-embedding-3-small', or one of {', '.join(alone)}"
        )
    return name


def check_provider(model: str, *, converses: bool = False) -> None:
    """Check that pydantic-ai has a provider for a model, which imports it for a less common one.

    If it is not installed, this cannot be known. Then the first use of the model fails and says
    what to install, as with any other unusable model.

    Args:
        model: The model.
        converses: Whether it is a language model rather than an embedding model.

    Raises:
        ValueError: It has none.
    """
    if find_spec("pydantic_ai") is None:
        return
    usual = [name for name, it in PROVIDERS.items() if (it.converses if converses else it.embeds)]
    provider = model.partition(":")[0]
    if ":" in model and provider not in usual and not _is_known(provider.removeprefix(_GATEWAY)):
        hint = did_you_mean(provider, usual) or "; check its name"
        raise ValueError(f"pydantic-ai knows no provider of {model!r}{hint}")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown name: a similar known one."""
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower()[:_COMPARED], known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _is_known(provider: str) -> bool:
    """Return whether pydantic-ai has a provider."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except ImportError:
        # It is known, but its package is missing, which its first use will report.
        pass
    return True


def _name(model: str) -> str:
    # The chosen length of vectors may follow it, as in `test@8`.
    return model.partition(":")[0].partition("@")[0].removeprefix(_GATEWAY)
