"""The contract kit, which test_embedding.py runs over every embedder, refuses a broken one."""

import asyncio

import pytest
from toolembed.testing import check_embedder


class DependsOnTheBatch:
    model_id = "batches"
    dimensions = 2

    async def embed_documents(self, texts):
        return [[1.0, float(len(texts))] for _ in texts]

    async def embed_query(self, text):
        return [1.0, float(len(text))]


def test_an_embedder_that_breaks_a_promise_is_refused_and_the_message_names_the_promise():
    with pytest.raises(AssertionError, match="in another batch"):
        asyncio.run(check_embedder(DependsOnTheBatch()))
