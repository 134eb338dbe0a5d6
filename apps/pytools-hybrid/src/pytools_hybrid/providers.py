"""Which providers of models pydantic-ai has."""

from __future__ import annotations

__all__ = ["is_provider"]


def is_provider(name: str) -> bool:
    """Tell whether pydantic-ai has a provider of a name; it is imported for that."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        # It is known; its package is missing, which the first use of it will tell.
        pass
    return True
