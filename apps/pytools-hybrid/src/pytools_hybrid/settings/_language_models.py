"""Names of language models, checked without importing what asks them."""

from __future__ import annotations

from toolembed.providers import PROVIDERS, TEST_MODEL, check_provider


def check_model_name(name: str) -> str:
    """Return the name of a language model back if there is a provider of it.

    Whether the provider has the model, and a key for it, only the first use can tell.

    Raises:
        ValueError: It names no provider, or one that pydantic-ai does not know.
    """
    provider, _, model = name.partition(":")
    if name != TEST_MODEL and not (provider and model):
        raise ValueError(
            f"{name!r} names no provider; use PROVIDER:MODEL as in 'openai:gpt-5-mini'"
        )
    check_provider(name, usual=[it for it, each in PROVIDERS.items() if each.converses])
    return name
