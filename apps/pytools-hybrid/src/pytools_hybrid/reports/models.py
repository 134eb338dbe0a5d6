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
_FIRST_LOCAL_MODEL = f"{_LOCAL}:{PROVIDERS[_LOCAL].models[0]}"
_OLLAMA_MODEL = f"ollama:{PROVIDERS['ollama'].models[0]}"
_PROBE = "merge two pdf files"
_LIST = "pytools-hybrid doctor --models"
_REMEDIES = (
    (re.compile(r"run: (.+)$"), "{}"),
    (re.compile(r"\((ollama serve)\)"), "{}"),
    (re.compile(r"set (PYTOOLS_\w+=\w+)"), "export {}"),
    (re.compile(r"`([A-Z][A-Z0-9_]*(?:KEY|TOKEN|URL|PROJECT|REGION))`"), "export {}=…"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """An embedding model, and whether it could be used now.

    Attributes:
        setting: The value for `--model` or `PYTOOLS_EMBEDDING_MODEL`.
        works: Whether it could be used.
        was_asked: Whether `works` is known from a real call, or only from installed packages.
        message: The reason, or details about the model.
        remedy: How to make it work; None if it does.
    """

    setting: str
    works: bool
    was_asked: bool = False
    message: str
    remedy: str | None = None


def model_choices(*, call: bool = False) -> Iterator[ModelChoice]:
    """Yield the models that could be used here, as they are found.

    Only the names of keys in the environment are checked, never their values.

    Args:
        call: Whether to call providers' models too, which costs money: each embeds four words.
            Ollama's first model is called too. Local models are not loaded.
    """
    yield _asked("static", "comes with the installation, offline")
    yield _asked("accurate", "comes with its extra, offline")
    yield from _local_models()
    yield _ollama_model(call=call)
    for name, provider in PROVIDERS.items():
        if provider.key_variables:
            yield from _provided(name, call=call)


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


def _asked(setting: str, message: str) -> ModelChoice:
    from toolembed import EmbeddingError

    embedder = create_embedder(setting, hints=REMEDIES)
    if embedder is None:
        return ModelChoice(setting=setting, works=False, message="not an embedding model")
    try:
        dimensions, milliseconds = called(embedder)
    except EmbeddingError as error:
        return ModelChoice(
            setting=setting,
            works=False,
            was_asked=True,
            message=str(error),
            remedy=remedy_of(error.reason, model=setting),
        )
    message += f"; {dimensions} dimensions, {milliseconds:.0f} ms including loading"
    return ModelChoice(setting=setting, works=True, was_asked=True, message=message)


def _provided(name: str, *, call: bool) -> Iterator[ModelChoice]:
    provider = PROVIDERS[name]
    models = [f"{name}:{model}" for model in provider.models]
    first = models[0]
    if lacking := _lacking(name):
        yield ModelChoice(
            setting=first, works=False, message="its package is not installed", remedy=lacking
        )
        return
    key = next((name for name in provider.key_variables if os.environ.get(name)), None)
    if key is None:
        names = " or ".join(provider.key_variables)
        yield ModelChoice(
            setting=first,
            works=False,
            message=f"no key: {names} is not set",
            remedy=f"export {provider.key_variables[0]}=…",
        )
        return
    for setting in models:
        if call:
            yield _asked(setting, f"with {key}")
        else:
            message = f"{key} is set; not called (--call-providers calls it, which costs money)"
            yield ModelChoice(setting=setting, works=True, message=message)


def _local_models() -> Iterator[ModelChoice]:
    if lacking := _lacking(_LOCAL):
        yield ModelChoice(
            setting=_FIRST_LOCAL_MODEL,
            works=False,
            message="its package is not installed",
            remedy=lacking,
        )
        return
    from toolembed.downloads import downloaded_models

    models = downloaded_models()
    for setting, size in models.items():
        message = f"downloaded ({size / 1e6:.0f} MB); not loaded now"
        yield ModelChoice(setting=setting, works=True, message=message)
    if not models:
        yield ModelChoice(
            setting=_FIRST_LOCAL_MODEL,
            works=False,
            message="not downloaded",
            remedy=f"pytools-hybrid index --model {_FIRST_LOCAL_MODEL} --download",
        )


def _ollama_model(*, call: bool) -> ModelChoice:
    if lacking := _lacking("ollama"):
        message = "the package openai, which calls it, is not installed"
        return ModelChoice(setting=_OLLAMA_MODEL, works=False, message=message, remedy=lacking)
    if call:
        return _asked(_OLLAMA_MODEL, "with Ollama")
    message = "or any other that a running Ollama has; not called (--call-providers calls it)"
    return ModelChoice(setting=_OLLAMA_MODEL, works=True, message=message)


def _lacking(provider: str) -> str | None:
    """Return the command that installs what a provider needs, or None if it is installed."""
    if all(map(_is_installed, ("pydantic_ai", *PROVIDERS[provider].modules))):
        return None
    return REMEDIES.to_install(provider)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        # The parent package is not installed.
        return False
