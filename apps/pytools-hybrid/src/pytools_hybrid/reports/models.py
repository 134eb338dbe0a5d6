"""Embedding models usable on this machine, and what the others lack."""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolembed import create_embedder
from toolembed.providers import PROVIDERS

from pytools_hybrid.settings import REMEDIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolembed import Embedder

_LOCAL = "sentence-transformers"
_PROBE = "merge two pdf files"
_LIST = "pytools-hybrid doctor --models"
_REMEDIES = (
    (re.compile(r"run: (.+)$"), "{}"),
    (re.compile(r"\((ollama serve)\)"), "{}"),
    (re.compile(r"set (PYTOOLS_\w+=\w+)"), "export {}"),
    (re.compile(r"`([A-Z][A-Z0-9_]*(?:KEY|TOKEN|URL|PROJECT|REGION))`"), "export {}=…"),
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """An embedding model, and whether it could be used now.

    Attributes:
        setting: The value for `--model` or `PYTOOLS_EMBEDDING_MODEL`.
        works: Whether it could be used.
        message: The reason, or details about the model.
        remedy: How to make it work; None if it does.
        was_asked: Whether `works` is known from a real call, or only from installed packages.
    """

    setting: str
    works: bool
    message: str
    remedy: str | None = None
    was_asked: bool = False


def model_choices(*, call: bool = False) -> Iterator[ModelChoice]:
    """Yield the models that could be used here, as they are found.

    Only the names of keys in the environment are checked, never their values.

    Args:
        call: Whether to call providers' models too, which costs money: each embeds four words.
            Ollama's first model is called too. Local models are not loaded.
    """
    yield _called("static", "comes with the installation, offline")
    yield _called("accurate", "comes with its extra, offline")
    for name, provider in PROVIDERS.items():
        if not provider.models:
            continue
        first, *_ = models = [f"{name}:{model}" for model in provider.models]
        key = next((it for it in provider.key_variables if os.environ.get(it)), None)
        if not all(map(_is_installed, ("pydantic_ai", *provider.modules))):
            lacking = "its package is not installed"
            yield ModelChoice(first, False, lacking, REMEDIES.to_install(name))
        elif name == _LOCAL:
            yield from _downloaded(first)
        elif name == "ollama" and call:
            yield _called(first, "with Ollama")
        elif name == "ollama":
            about = "or any other that a running Ollama has; not called (--call-providers calls it)"
            yield ModelChoice(first, True, about)
        elif provider.key_variables and key is None:
            lacking = f"no key: {' or '.join(provider.key_variables)} is not set"
            yield ModelChoice(first, False, lacking, f"export {provider.key_variables[0]}=…")
        elif provider.key_variables and call:
            yield from (_called(it, f"with {key}") for it in models)
        elif provider.key_variables:
            about = f"{key} is set; not called (--call-providers calls it, which costs money)"
            yield from (ModelChoice(it, True, about) for it in models)


def remedy_of(message: str, *, model: str) -> str:
    """Return the command in the message of a failed call, or a general one.

    Args:
        message: The error message, which may contain the name of the model.
        model: The name of the model, which may come from a cloned repository's settings file.
    """
    # The patterns contain a space or match whole names, so that a model's name cannot be taken for
    # a command.
    if any(map(str.isspace, model)):
        return _LIST
    if (command := REMEDIES.to_install(model)) in message:
        return command
    for pattern, remedy in _REMEDIES:
        if found := pattern.search(message):
            return remedy.format(found[1])
    return _LIST


def called(embedder: Embedder) -> tuple[int, float]:
    """Embed four words; return the number of dimensions and how many milliseconds it took.

    Raises:
        EmbeddingError: The model cannot embed them.
    """
    started = time.perf_counter()
    dimensions = len(asyncio.run(embedder.embed_query(_PROBE)))
    return dimensions, 1000 * (time.perf_counter() - started)


def _called(setting: str, about: str) -> ModelChoice:
    from toolembed import EmbeddingError

    embedder = create_embedder(setting, hints=REMEDIES)
    if embedder is None:
        return ModelChoice(setting, False, "not an embedding model")
    try:
        dimensions, milliseconds = called(embedder)
    except EmbeddingError as error:
        remedy = remedy_of(error.reason, model=setting)
        return ModelChoice(setting, False, str(error), remedy, was_asked=True)
    about += f"; {dimensions} dimensions, {milliseconds:.0f} ms including loading"
    return ModelChoice(setting, True, about, was_asked=True)


def _downloaded(first: str) -> Iterator[ModelChoice]:
    from toolembed.downloads import downloaded_models

    models = downloaded_models()
    for setting, size in models.items():
        yield ModelChoice(setting, True, f"downloaded ({size / 1e6:.0f} MB); not loaded now")
    if not models:
        remedy = f"pytools-hybrid index --model {first} --download"
        yield ModelChoice(first, False, "not downloaded", remedy)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        # The parent package is not installed.
        return False
