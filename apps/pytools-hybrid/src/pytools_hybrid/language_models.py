"""Names of language models, checked without importing what asks them."""

from __future__ import annotations

from pytools_hybrid.providers import check_provider

__all__ = ["check_model_name"]

_TEST_MODEL = "test"
# pydantic-ai knows more, and is asked about those; these cost no import.
_USUAL_PROVIDERS = frozenset(
    """
    anthropic azure bedrock cohere deepseek google google-cloud google-gla google-vertex groq
    huggingface mistral ollama openai openai-chat openai-responses openrouter xai
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)


def check_model_name(name: str) -> str:
    """Give the name of a language model back if there is a provider of it.

    Whether the provider has the model, and a key for it, only the first use can tell.

    Raises:
        ValueError: It names no provider, or one that pydantic-ai does not know.
    """
    provider, _, model = name.partition(":")
    if name != _TEST_MODEL and not (provider and model):
        raise ValueError(
            f"{name!r} names no provider; use PROVIDER:MODEL as in 'openai:gpt-5-mini'"
        )
    check_provider(name, usual=_USUAL_PROVIDERS)
    return name
