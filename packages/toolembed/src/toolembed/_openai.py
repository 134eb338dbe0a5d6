"""Features that pydantic-ai lacks for providers that use the package `openai`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai import AsyncOpenAI

if TYPE_CHECKING:
    from openai.resources import AsyncEmbeddings
    from openai.types import CreateEmbeddingResponse


def adapt(client: object) -> None:
    """Return the client without retries, and with vectors in the order of their texts.

    Our caller decides when to retry: the client would wait as long as the provider asks, as if the
    provider did not answer.
    """
    if isinstance(client, AsyncOpenAI):
        client.max_retries = 0
        vars(client)["embeddings"] = _InOrder(client.embeddings)


class _InOrder:
    """A client's embeddings, sorted by their index; pydantic-ai does not sort them."""

    def __init__(self, embeddings: AsyncEmbeddings) -> None:
        self._embeddings = embeddings

    async def create(self, **asked: Any) -> CreateEmbeddingResponse:  # noqa: ANN401 - passed on
        answer = await self._embeddings.create(**asked)
        by_index = {row.index: row for row in answer.data}
        # Some servers give every row the index 0.
        if by_index.keys() == set(range(len(answer.data))):
            answer.data = [by_index[index] for index in range(len(answer.data))]
        return answer
