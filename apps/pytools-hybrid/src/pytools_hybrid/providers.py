"""Which providers of models pydantic-ai has, and what to install for one.

pydantic-ai is an extra: no search needs it but with one of the models that it knows.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "EXTRAS",
    "check_provider",
    "current_name",
    "did_you_mean",
    "has_pydantic_ai",
    "is_provider",
    "missing",
    "not_here",
    "to_install",
    "what_to_do",
]

EXTRAS = {
    **dict.fromkeys(
        ("openai", "openai-chat", "openai-responses", "azure", "deepseek", "ollama"), "openai"
    ),
    **dict.fromkeys(("google", "google-cloud", "google-gla", "google-vertex"), "google"),
    "cohere": "cohere",
    "voyageai": "voyageai",
    "sentence-transformers": "sentence-transformers",
}
"""The extra of ours that brings what a provider needs."""

# For these pydantic-ai has an extra of the same name.
_THEIR_EXTRAS = frozenset(
    {"anthropic", "bedrock", "groq", "huggingface", "mistral", "openrouter", "xai"}
)
_GATEWAY = "gateway/"
_RENAMED = {"google-gla": "google", "google-vertex": "google-cloud"}
_COMPARED = 100


def current_name(model: str) -> str:
    """Return a model's name with the one that its provider has now."""
    provider, colon, name = model.partition(":")
    return f"{_RENAMED.get(provider, provider)}{colon}{name}"


def has_pydantic_ai() -> bool:
    """Tell whether pydantic-ai is installed; it is not imported for that."""
    return find_spec("pydantic_ai") is not None


def is_provider(name: str) -> bool:
    """Tell whether pydantic-ai is here and has a provider of a name; it is imported for that."""
    if not has_pydantic_ai():
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        # It is known; its package is missing, which the first use of it will tell.
        pass
    return True


def check_provider(model: str, *, usual: Collection[str]) -> None:
    """Make sure that pydantic-ai has a provider of a model.

    Where it is not installed, nobody can tell. Then the first use of the model says what to
    install, and costs what the model would have given, as with any other that cannot be used.

    Args:
        model: Its name.
        usual: Providers that are known without an import.

    Raises:
        ValueError: It has none.
    """
    if not has_pydantic_ai():
        return
    provider = model.partition(":")[0]
    if ":" in model and provider not in usual and not is_provider(provider.removeprefix(_GATEWAY)):
        hint = did_you_mean(provider, usual) or "; check its name"
        raise ValueError(f"pydantic-ai knows no provider of {model!r}{hint}")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return what to add to an error about an unknown name: a known one that is like it."""
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower()[:_COMPARED], known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def what_to_do(model: str, error: ImportError) -> str:
    """Say what is missing for a model whose use ended with an error, and what to install."""
    provider = _provider(model)
    if has_pydantic_ai() and provider not in EXTRAS and provider not in _THEIR_EXTRAS:
        # Which package it is, only pydantic-ai knows.
        return str(error).partition("\n")[0]
    return missing(model)


def missing(model: str) -> str:
    """Say that a model's package is not installed, with the command that installs it."""
    # Nobody is left to ask whether there is a provider of another name.
    is_known = ":" not in model or _provider(model) in {*EXTRAS, *_THEIR_EXTRAS}
    if is_known:
        return f"its package is missing; {to_install(model)}"
    hint = did_you_mean(_provider(model), (*EXTRAS, *_THEIR_EXTRAS))
    return f"its package is missing, or its provider misspelt{hint}; {to_install(model)}"


def not_here(error: ImportError) -> ImportError:
    """Give what a module of ours that is for pydantic-ai alone raises where it is not installed."""
    return ModuleNotFoundError(
        f"this module is for pydantic-ai, which is an extra; {to_install('')}", name=error.name
    )


def to_install(model: str) -> str:
    """Give the command that installs what a model needs."""
    provider = _provider(model)
    wanted = [f"pytools-hybrid[{EXTRAS.get(provider, 'pydantic-ai')}]"]
    if provider in _THEIR_EXTRAS:
        wanted.append(f"pydantic-ai-slim[{provider}]")
    return " ".join(["pip install", *(f'"{each}"' for each in wanted)])


def _provider(model: str) -> str:
    return model.partition(":")[0].removeprefix(_GATEWAY)
