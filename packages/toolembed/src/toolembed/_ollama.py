"""Ollama through its OpenAI-compatible endpoint: where it is, and what its failures mean."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.embeddings import EmbeddingModel
    from pydantic_ai.providers.ollama import OllamaProvider

OLLAMA = "ollama"
_VARIABLE = "OLLAMA_BASE_URL"
_DEFAULT = "http://localhost:11434"
_PATH = "/v1"


def ollama_address() -> str:
    """Return the URL of Ollama's OpenAI-compatible endpoint: `OLLAMA_BASE_URL`, or the default.

    The variable may name the server alone, as Ollama's own documents do.
    """
    address = os.environ.get(_VARIABLE, "").strip().rstrip("/") or _DEFAULT
    return address if urlsplit(address).path else f"{address}{_PATH}"


def ollama_model(name: str, adapted: Callable[[OllamaProvider], OllamaProvider]) -> EmbeddingModel:
    """Return an embedding model of Ollama; nothing is connected yet, and no key is needed.

    Raises:
        ImportError: The package `openai` is not installed.
    """
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.providers.ollama import OllamaProvider

    return OpenAIEmbeddingModel(name, provider=adapted(OllamaProvider(base_url=ollama_address())))


def ollama_problem(error: Exception, name: str) -> str | None:
    """Return what to do after a failure, or None if its own message is good enough."""
    from pydantic_ai.exceptions import ModelConnectionError, ModelNotFoundError

    if isinstance(error, ModelNotFoundError):
        return f"Ollama does not have it; run: ollama pull {quote(name)}"
    if isinstance(error, ModelConnectionError):
        return (
            f"Ollama does not answer at {ollama_address()}; start it (ollama serve), or set "
            f"{_VARIABLE}"
        )
    return None
