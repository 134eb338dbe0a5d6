"""The contract kit passes a good embedder, and names what is wrong with a bad one."""

import asyncio
import hashlib
import math

import pytest
from toolembed.testing import check_embedder


class Good:
    """Hashes a text to three numbers: it keeps every promise, and understands nothing."""

    model_id = "hash"
    dimensions = 3

    def vector(self, text):
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return [1.0 + byte for byte in digest[:3]]

    async def embed_documents(self, texts):
        return [self.vector(text) for text in texts]

    async def embed_query(self, text):
        return self.vector(text)


class Nameless(Good):
    model_id = ""


class AnswersNothingWithSomething(Good):
    async def embed_documents(self, texts):
        return [self.vector(text) for text in texts or [""]]


class LosesOne(Good):
    async def embed_documents(self, texts):
        return [self.vector(text) for text in texts][:-1]


class ShorterQueries(Good):
    async def embed_query(self, text):
        return self.vector(text)[:-1]


class LongerForLongTexts(Good):
    def vector(self, text):
        return [*super().vector(text), *([1.0] if len(text) > 1000 else [])]


class NotANumber(Good):
    def vector(self, text):
        return [math.nan, 1.0, 1.0] if "\0" in text else super().vector(text)


class Infinite(Good):
    def vector(self, text):
        return [math.inf, 1.0, 1.0] if text == "x" else super().vector(text)


class TooLarge(Good):
    def vector(self, text):
        return [1e39, 1.0, 1.0] if text == "x" else super().vector(text)


class TooSmall(Good):
    def vector(self, text):
        return [1e-320, 0.0, 0.0] if text == "x" else super().vector(text)


class ZerosForUnknownWords(Good):
    def vector(self, text):
        return super().vector(text) if text.isascii() else [0.0, 0.0, 0.0]


class DependsOnTheBatch(Good):
    async def embed_documents(self, texts):
        return [[*self.vector(text)[:2], float(len(texts))] for text in texts]


class LearnsItsDimensions(Good):
    dimensions = None

    async def embed_documents(self, texts):
        if texts:
            self.dimensions = 3
        return await super().embed_documents(texts)


class NeverKnowsItsDimensions(Good):
    dimensions = None


class AnnouncesOtherDimensions(Good):
    def __init__(self):
        self.dimensions = 4

    async def embed_query(self, text):
        self.dimensions = 3
        return await super().embed_query(text)


class ChokesOnSurrogates(Good):
    def vector(self, text):
        return [1.0 + byte for byte in hashlib.sha256(text.encode()).digest()[:3]]


@pytest.mark.parametrize("embedder", [Good(), LearnsItsDimensions()])
def test_an_embedder_that_keeps_its_promises_passes(embedder):
    asyncio.run(check_embedder(embedder))


@pytest.mark.parametrize(
    ("embedder", "message"),
    [
        (Nameless(), "model_id is empty"),
        (AnswersNothingWithSomething(), "no texts must give no vectors"),
        (LosesOne(), "one vector for each text"),
        (ShorterQueries(), "another length than the query's"),
        (LongerForLongTexts(), "another length than the query's"),
        (NotANumber(), "is not finite"),
        (Infinite(), "is not finite"),
        (TooLarge(), "is not finite"),
        (TooSmall(), "is all zeros"),
        (ZerosForUnknownWords(), "is all zeros"),
        (DependsOnTheBatch(), "in another batch"),
        (NeverKnowsItsDimensions(), "dimensions is None after texts whose vectors have 3"),
        (AnnouncesOtherDimensions(), "dimensions was 4 before the first text"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Good) else "",
)
def test_an_embedder_that_breaks_a_promise_fails_and_the_message_says_which(embedder, message):
    with pytest.raises(AssertionError, match=message):
        asyncio.run(check_embedder(embedder))


def test_an_embedder_that_refuses_a_text_fails():
    with pytest.raises(UnicodeEncodeError):
        asyncio.run(check_embedder(ChokesOnSurrogates()))
