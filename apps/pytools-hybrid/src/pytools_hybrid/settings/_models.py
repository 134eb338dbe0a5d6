"""Checking the names of language models, and explaining why a model cannot be used."""

from __future__ import annotations

from toolembed.providers import InstallHints, check_provider, redact_keys

from pytools_hybrid.installation import install_command
from pytools_hybrid.text import one_line

REMEDIES = InstallHints(
    distribution="pytools-hybrid",
    download="pytools-hybrid index --model {model} --download",
    device="set PYTOOLS_DEVICE=auto",
    install=install_command,
)
"""What errors about models suggest, as our own commands and settings."""

_REASON_LENGTH = 300


def check_model_name(name: str) -> str:
    """Return the name of a language model; raise ValueError if its provider is unknown.

    Only the first use can tell whether the provider has the model, and whether there is a key.
    """
    provider, _, model = name.partition(":")
    if name != "test" and not (provider and model):
        raise ValueError(
            f"{name!r} names no provider; use PROVIDER:MODEL as in 'openai:gpt-5-mini'"
        )
    check_provider(name, converses=True)
    return name


def why_unusable(model: str, error: Exception) -> str:
    """Return why a language model could not be loaded, without keys, and what to do about it."""
    if isinstance(error.__cause__, ImportError):
        return REMEDIES.what_to_do(model, error.__cause__)
    # Hide keys before cutting the text, because half a key is not recognized.
    return one_line(redact_keys(str(error)), _REASON_LENGTH)
