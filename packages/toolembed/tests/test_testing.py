"""The contract kit, which test_embedding.py runs over every embedder, rejects a broken one."""

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


def test_the_kit_names_the_promise_that_an_embedder_breaks():
    with pytest.raises(AssertionError, match="in another batch"):
        asyncio.run(check_embedder(DependsOnTheBatch()))
