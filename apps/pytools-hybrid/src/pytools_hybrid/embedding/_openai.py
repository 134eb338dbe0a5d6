"""What providers that are asked by the package `openai` need beside pydantic-ai."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai import AsyncOpenAI

if TYPE_CHECKING:
    from openai.resources import AsyncEmbeddings
    from openai.types import CreateEmbeddingResponse

__all__ = ["adapt"]


def adapt(client: object) -> None:
    """Have a client try once, and bring the vectors of an answer in the order of their texts.

    Whoever makes the request knows better when to make it again: the client would wait for as
    long as a provider asks, and nobody could tell that from a provider that does not answer.
    """
    if isinstance(client, AsyncOpenAI):
        client.max_retries = 0
        vars(client)["embeddings"] = _InOrder(client.embeddings)


class _InOrder:
    """Embeddings of a client, by the index that each has; pydantic-ai takes them as they come."""

    def __init__(self, embeddings: AsyncEmbeddings) -> None:
        self._embeddings = embeddings

    async def create(self, **asked: Any) -> CreateEmbeddingResponse:  # noqa: ANN401 - passed on
        answer = await self._embeddings.create(**asked)
        by_index = {row.index: row for row in answer.data}
        # Some servers give every row the index 0.
        if by_index.keys() == set(range(len(answer.data))):
            answer.data = [by_index[index] for index in range(len(answer.data))]
        return answer
