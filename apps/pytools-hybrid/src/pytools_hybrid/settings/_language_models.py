"""Names of language models, checked without importing the libraries that call them."""

from __future__ import annotations

from toolembed.providers import PROVIDERS, TEST_MODEL, check_provider


def check_model_name(name: str) -> str:
    """Return the name of a language model; raise ValueError if its provider is unknown.

    Only the first use can tell whether the provider has the model, and whether there is a key.
    """
    provider, _, model = name.partition(":")
    if name != TEST_MODEL and not (provider and model):
        raise ValueError(
            f"{name!r} names no provider; use PROVIDER:MODEL as in 'openai:gpt-5-mini'"
        )
    check_provider(name, usual=[it for it, each in PROVIDERS.items() if each.converses])
    return name
