"""What the index needs from others: something that turns text into vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Embedder"]


class Embedder(Protocol):
    """Turns texts into vectors of one length.

    An implementation gives one vector for each text, in order, all of one length, each
    finite and not all zeros; the same text gives the same vector. Any text is accepted,
    also one with characters that cannot be encoded. `toolindex.testing.check_embedder`
    checks all this.
    """

    @property
    def model_id(self) -> str:
        """Names the model and everything that changes its vectors; vectors are kept under it."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that will be searched for."""
        ...

    async def embed_query(self, text: str) -> list[float]:
        """Embed a text that searches."""
        ...
