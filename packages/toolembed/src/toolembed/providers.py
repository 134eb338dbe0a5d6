"""The model providers of pydantic-ai, and what to install for each.

pydantic-ai is an extra, which the offline model does not need. `PROVIDERS` is the only table of
what is known without importing it. pydantic-ai supports more providers, and is asked about those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolembed.protocols import EmbeddingLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = [
    "ACCURATE",
    "ACCURATE_WEIGHTS",
    "OFFLINE",
    "PROVIDERS",
    "TEST_MODEL",
    "Provider",
    "Remedies",
    "check_known_provider",
    "check_model_name",
    "check_provider",
    "current_name",
    "did_you_mean",
    "has_accurate_weights",
    "has_pydantic_ai",
    "is_provider",
    "limits_of",
    "provider_of",
]

OFFLINE = "static"
"""The model that comes with the installation and works offline."""

ACCURATE = "accurate"
"""The model whose weights come with the extra of this name; it works offline too."""

ACCURATE_WEIGHTS = "toolembed_accurate"
"""The package of these weights."""

TEST_MODEL = "test"
"""pydantic-ai's own model for tests."""

_OURS = (OFFLINE, ACCURATE, "none")
# A prefix of a provider's name; it accepts what that provider accepts.
_GATEWAY = "gateway/"
_COMPARED = 100

# Less than most providers accept: more saves no time, and a kill loses requests in flight.
_BATCH = 64
_LOCAL = EmbeddingLimits(texts_per_request=_BATCH)
_REMOTE = EmbeddingLimits(texts_per_request=_BATCH, concurrency=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What is known about a provider without importing pydantic-ai.

    Attributes:
        extra: The extra of toolembed that installs what it needs; empty if there is none.
        has_own_extra: Whether pydantic-ai-slim has an extra of its name.
        modules: The modules that its extra installs.
        now: Its current name, if this one is outdated.
        embeds: Whether it is commonly used for embedding models.
        converses: Whether it is commonly used for language models.
        downloads: Whether it runs in this process, and downloads missing models.
        limits: The limits of its embedding models, from its documentation; at most two batches are
            in progress at once.
        limits_of_models: The same for models whose names begin with the key.
        models: Names of its common embedding models, the most common one first.
        key_variables: The environment variables that may have its key.
    """

    extra: str = ""
    has_own_extra: bool = False
    modules: tuple[str, ...] = ()
    now: str = ""
    embeds: bool = False
    converses: bool = False
    downloads: bool = False
    limits: EmbeddingLimits = _REMOTE
    limits_of_models: tuple[tuple[str, EmbeddingLimits], ...] = ()
    models: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()


_OPENAI = ("openai", "tiktoken")
_GOOGLE = ("google.genai",)
# One text in a request, which the SDK checks; 8,192 tokens in it.
_GEMINI_2 = EmbeddingLimits(texts_per_request=1, tokens_per_text=8_192, concurrency=4)

PROVIDERS = {
    "openai": Provider(
        extra="openai",
        modules=_OPENAI,
        embeds=True,
        converses=True,
        # 2,048 texts and 300,000 tokens in a request, 8,191 tokens in a text.
        limits=replace(_REMOTE, tokens_per_request=300_000, tokens_per_text=8_191),
        models=("text-embedding-3-small", "text-embedding-3-large"),
        key_variables=("OPENAI_API_KEY",),
    ),
    "openai-chat": Provider(extra="openai", modules=_OPENAI, converses=True),
    "openai-responses": Provider(extra="openai", modules=_OPENAI, converses=True),
    "azure": Provider(extra="openai", modules=_OPENAI, embeds=True, converses=True),
    "deepseek": Provider(extra="openai", modules=_OPENAI, embeds=True, converses=True),
    # It runs a local model, one request after the other.
    "ollama": Provider(
        extra="openai",
        modules=_OPENAI,
        embeds=True,
        converses=True,
        limits=_LOCAL,
        models=("nomic-embed-text",),
    ),
    "google": Provider(
        extra="google",
        modules=_GOOGLE,
        embeds=True,
        converses=True,
        # 100 texts in a request (BatchEmbedContents), 2,048 tokens in a text.
        limits=replace(_REMOTE, tokens_per_text=2_048),
        models=("gemini-embedding-001",),
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    "google-cloud": Provider(
        extra="google",
        modules=_GOOGLE,
        embeds=True,
        converses=True,
        # 250 texts and 20,000 tokens in a request, 2,048 tokens in a text.
        limits=replace(_REMOTE, tokens_per_request=20_000, tokens_per_text=2_048),
        limits_of_models=(("gemini-embedding-2", _GEMINI_2),),
    ),
    "google-gla": Provider(
        extra="google", modules=_GOOGLE, now="google", embeds=True, converses=True
    ),
    "google-vertex": Provider(
        extra="google", modules=_GOOGLE, now="google-cloud", embeds=True, converses=True
    ),
    "cohere": Provider(
        extra="cohere",
        modules=("cohere",),
        embeds=True,
        converses=True,
        # 96 texts in a request; what is too long for the model is cut off by the provider.
        limits=_REMOTE,
        models=("embed-v4.0",),
        key_variables=("CO_API_KEY",),
    ),
    "voyageai": Provider(
        extra="voyageai",
        modules=("voyageai",),
        embeds=True,
        # 1,000 texts in a request, 120,000 tokens for the largest models, 32,000 tokens in a text
        # (16,000 for some).
        limits=replace(_REMOTE, tokens_per_request=120_000, tokens_per_text=16_000),
        models=("voyage-4-lite", "voyage-4"),
        key_variables=("VOYAGE_API_KEY",),
    ),
    "sentence-transformers": Provider(
        extra="sentence-transformers",
        modules=("sentence_transformers", "torch"),
        embeds=True,
        downloads=True,
        limits=_LOCAL,
        models=("all-MiniLM-L6-v2",),
    ),
    "bedrock": Provider(
        has_own_extra=True,
        embeds=True,
        converses=True,
        # 96 texts for Cohere's models; Amazon's take one text of 8,192 tokens at a time, and
        # pydantic-ai sends five such requests at once for one of ours.
        limits=EmbeddingLimits(texts_per_request=_BATCH, tokens_per_text=8_192),
    ),
    # 10 texts in a request.
    "alibaba": Provider(
        limits=EmbeddingLimits(texts_per_request=10, tokens_per_text=8_192, concurrency=4)
    ),
    TEST_MODEL: Provider(limits=EmbeddingLimits()),
    **dict.fromkeys(
        ("anthropic", "groq", "huggingface", "mistral", "openrouter", "xai"),
        Provider(has_own_extra=True, converses=True),
    ),
}
"""The providers by the name before the colon in a model's name."""

_NO_PROVIDER = Provider()


def _install(*wanted: str) -> str:
    return " ".join(["install", *(f'"{each}"' for each in wanted)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
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
        extra = ACCURATE if model == ACCURATE else provider.extra or "pydantic-ai"
        wanted = [f"{self.distribution}[{extra}]"]
        if provider.has_own_extra:
            wanted.append(f"pydantic-ai-slim[{_name(model)}]")
        return self.install(*wanted)

    def missing(self, model: str) -> str:
        """Return a message that a model's package is missing, with the command that installs it."""
        # Only pydantic-ai knows whether a provider of another name exists.
        if ":" not in model or _is_installable(model):
            return f"its package is missing; {self.to_install(model)}"
        hint = did_you_mean(_name(model), [it for it in PROVIDERS if _is_installable(it)])
        return f"its package is missing, or its provider misspelt{hint}; {self.to_install(model)}"

    def what_to_do(self, model: str, error: ImportError) -> str:
        """Return what a failed model lacks, and the remedy."""
        if has_pydantic_ai() and not _is_installable(model):
            # Only pydantic-ai knows which package it is.
            return str(error).partition("\n")[0]
        return self.missing(model)

    def not_here(self, error: ImportError) -> ImportError:
        """Return the error of a module that needs pydantic-ai if that is missing."""
        return ModuleNotFoundError(
            f"this module is for pydantic-ai, which is an extra; {self.to_install('')}",
            name=error.name,
        )


def provider_of(model: str) -> Provider:
    """Return what is known about a model's provider, even behind a gateway."""
    return PROVIDERS.get(_name(model), _NO_PROVIDER)


def current_name(model: str) -> str:
    """Return a model's name with the current name of its provider."""
    provider, colon, name = model.partition(":")
    known = PROVIDERS.get(provider, _NO_PROVIDER)
    return f"{known.now or provider}{colon}{name}"


def limits_of(model_id: str, *, requests_per_minute: float | None = None) -> EmbeddingLimits:
    """Return a model's limits, by its provider and its name.

    Args:
        model_id: The model.
        requests_per_minute: How many requests it accepts, which does not follow from the name.

    Raises:
        ValueError: It is not positive.
    """
    provider = provider_of(model_id)
    name = model_id.partition(":")[2]
    of_model = (limits for prefix, limits in provider.limits_of_models if name.startswith(prefix))
    return replace(next(of_model, provider.limits), requests_per_minute=requests_per_minute)


def has_pydantic_ai() -> bool:
    """Return whether pydantic-ai is installed, without importing it."""
    return find_spec("pydantic_ai") is not None


def has_accurate_weights() -> bool:
    """Return whether the weights of the accurate model are installed, without loading them."""
    return find_spec(ACCURATE_WEIGHTS) is not None


def is_provider(name: str) -> bool:
    """Return whether pydantic-ai is installed and has a provider; this imports it."""
    if not has_pydantic_ai():
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        # It is known, but its package is missing, which its first use will report.
        pass
    return True


def check_provider(model: str, *, usual: Collection[str]) -> None:
    """Check that pydantic-ai has a provider for a model.

    If it is not installed, this cannot be known. Then the first use of the model fails and says
    what to install, as with any other unusable model.

    Raises:
        ValueError: It has none.
    """
    if not has_pydantic_ai():
        return
    provider = model.partition(":")[0]
    if ":" in model and provider not in usual and not is_provider(provider.removeprefix(_GATEWAY)):
        hint = did_you_mean(provider, usual) or "; check its name"
        raise ValueError(f"pydantic-ai knows no provider of {model!r}{hint}")


def check_model_name(name: str) -> str:
    """Return the name of an embedding model if its form is valid.

    Raises:
        ValueError: It names no provider.
    """
    if name in _OURS:
        return name
    if name != TEST_MODEL and not all(name.partition(":")):
        alone = (*_OURS, TEST_MODEL)
        raise ValueError(
            f"{name!r} names no provider{did_you_mean(name, alone)}; use PROVIDER:MODEL as in "
            f"'openai:text-embedding-3-small', or one of {', '.join(alone)}"
        )
    return name


def check_known_provider(name: str) -> None:
    """Raise ValueError if pydantic-ai does not know the provider in a name."""
    if name not in _OURS:
        check_provider(name, usual=[it for it, provider in PROVIDERS.items() if provider.embeds])


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown name: a similar known one."""
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower()[:_COMPARED], known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _name(model: str) -> str:
    # The chosen length of vectors may follow it, as in `test@8`.
    return model.partition(":")[0].partition("@")[0].removeprefix(_GATEWAY)


def _is_installable(model: str) -> bool:
    provider = provider_of(model)
    return bool(provider.extra) or provider.has_own_extra
