"""Embedders: the offline default, and the models of pydantic-ai."""

import asyncio
import hashlib
import subprocess
import sys
from dataclasses import replace
from operator import mul, sub

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Embedder
from pydantic_ai import exceptions as ai
from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult
from toolembed import EmbeddingError, FailureKind, StaticEmbedder, create_embedder
from toolembed._provider import ProviderEmbedder
from toolembed._static import _WEIGHTS
from toolembed.pydantic_ai import StaticEmbeddingModel
from toolembed.testing import check_embedder

from .conftest import PATIENCE


class HashingModel(EmbeddingModel):
    """A model whose vectors depend on the text, and that counts its requests."""

    def __init__(self, *, lengths=(), error=None, system="hashing"):
        super().__init__()
        self.requests = []
        self.texts = []
        self._lengths = iter(lengths)
        self._error = error
        self._system = system

    @property
    def system(self):
        return self._system

    @property
    def model_name(self):
        return "sha256"

    async def embed(self, inputs, *, input_type, settings=None):
        texts, _ = self.prepare_embed(inputs, settings)
        assert len(texts) <= 64, "the provider refuses so many texts at once"
        self.requests.append((input_type, len(texts)))
        self.texts += texts
        if self._error is not None:
            raise self._error
        vectors = [
            [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()][
                : next(self._lengths, 32)
            ]
            for text in texts
        ]
        return EmbeddingResult(
            embeddings=vectors,
            inputs=texts,
            input_type=input_type,
            model_name=self.model_name,
            provider_name=self.system,
        )


@pytest.mark.parametrize(
    "embedder",
    [
        create_embedder("static"),
        create_embedder("accurate"),
        create_embedder("test"),
        create_embedder("test", dimensions=24),
        ProviderEmbedder(StaticEmbeddingModel()),
        ProviderEmbedder(HashingModel()),
    ],
    ids=["static", "accurate", "test", "test@24", "static through pydantic-ai", "a model object"],
)
def test_every_embedder_keeps_the_contract(embedder):
    asyncio.run(check_embedder(embedder))


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


@pytest.fixture(scope="module")
def loaded():
    return StaticEmbedder()


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8))
def test_a_text_has_the_same_vector_alone_and_in_any_batch(loaded, texts):
    for encode in (loaded.encode_documents, loaded.encode_queries):
        alone = [encode([text])[0] for text in texts]
        together = encode([*texts, "a long text " * 200])[:-1]
        for one, other in zip(alone, together, strict=True):
            assert max(map(abs, map(sub, one, other))) < 1e-9


def test_the_first_words_of_a_document_have_the_most_weight(loaded):
    (query,) = loaded.encode_queries(["merge"])
    texts = ("merge files: {} read", "read files: {} merge")
    first, last = loaded.encode_documents([text.format("of any kind " * 20) for text in texts])
    # Both have unit length.
    assert sum(map(mul, query, first)) > sum(map(mul, query, last))


def test_without_numpy_a_query_has_the_same_vector():
    code = (
        "import sys\n"
        "from toolembed import StaticEmbedder\n"
        "texts = ['open an issue', '', 'メール 🛠']\n"
        "plain = StaticEmbedder().encode_queries(texts)\n"
        "assert not {'numpy', 'pydantic_ai'} & set(sys.modules)\n"
        "import numpy\n"
        "assert numpy.allclose(plain, StaticEmbedder().encode_queries(texts), rtol=1e-9)\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_the_pydantic_ai_model_returns_the_same_vectors(loaded):
    texts = ["open an issue", "merge two files"]
    embedder = Embedder(StaticEmbeddingModel())

    documents = asyncio.run(embedder.embed_documents(texts))
    assert documents.embeddings == loaded.encode_documents(texts)
    queries = asyncio.run(embedder.embed_query(texts))
    assert queries.embeddings == loaded.encode_queries(texts)


@pytest.mark.parametrize(
    ("system", "texts", "requests"),
    [
        ("hashing", ["text"] * 150, [64, 64, 22]),
        # 20,000 tokens in a request
        ("google-cloud", ["word " * 1_000] * 20, [11, 9]),
    ],
)
def test_many_texts_are_sent_in_requests_that_a_provider_accepts(system, texts, requests):
    model = HashingModel(system=system)

    assert len(asyncio.run(ProviderEmbedder(model).embed_documents(texts))) == len(texts)
    assert model.requests == [("document", number) for number in requests]


def test_the_configured_rate_limits_providers_but_not_the_static_model():
    model = "google:gemini-embedding-001"
    limits = create_embedder(model, requests_per_minute=100).limits

    assert limits == replace(create_embedder(model).limits, requests_per_minute=100)
    assert create_embedder("static", requests_per_minute=100).limits.requests_per_minute is None
    assert create_embedder("google-cloud:gemini-embedding-2").limits.texts_per_request == 1
    with pytest.raises(ValueError, match="requests_per_minute"):
        create_embedder(model, requests_per_minute=0)


def test_texts_and_queries_are_truncated_to_the_providers_limit():
    model = HashingModel(system="openai")
    embedder = ProviderEmbedder(model)

    asyncio.run(embedder.embed_documents(["名" * 100_000]))
    asyncio.run(embedder.embed_query("find " * 100_000))

    assert [len(text) for text in model.texts] == [8_191, 3 * 8_191]
    assert model.requests == [("document", 1), ("query", 1)]


def test_dimensions_are_the_configured_ones_or_those_of_the_first_vector():
    assert create_embedder("static").dimensions == 256
    assert create_embedder("openai:text-embedding-3-small", dimensions=512).dimensions == 512
    embedder = ProviderEmbedder(HashingModel())
    assert embedder.dimensions is None
    asyncio.run(embedder.embed_query("find"))
    assert embedder.dimensions == 32


def test_a_wrong_number_of_vectors_is_retried_once_and_then_names_the_model():
    class Slipping(HashingModel):
        async def embed(self, inputs, **options):
            result = await super().embed(inputs, **options)
            result.embeddings = result.embeddings[: None if len(self.requests) == 2 else 1]
            return result

    embedder = ProviderEmbedder(model := Slipping())
    assert len(asyncio.run(embedder.embed_documents(["one", "two"]))) == 2

    with pytest.raises(EmbeddingError, match=r"hashing:sha256.*1 vectors for 2 texts") as caught:
        asyncio.run(embedder.embed_documents(["one", "two"]))
    assert caught.value.kind is FailureKind.REFUSED, "it may be right for fewer texts"
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("dimensions", "lengths", "message"),
    [
        (64, [], "gave vectors of 32 dimensions where 64 were expected"),
        (None, [32, 16] * 2, "gave vectors of 16 and 32 dimensions where 32 were expected"),
    ],
)
def test_a_provider_that_returns_unexpected_dimensions_is_named(dimensions, lengths, message):
    embedder = ProviderEmbedder(HashingModel(lengths=lengths), dimensions=dimensions)

    with pytest.raises(EmbeddingError, match=f"hashing:sha256.*{message}"):
        asyncio.run(embedder.embed_documents(["one", "two"]))


class VoyageLikeError(Exception):
    http_status = 413


def wrapped(error, cause):
    error.__cause__ = cause
    return error


def http(category, status, **details):
    return ai.ModelHTTPError.for_category(
        category, status_code=status, model_name="m", body=None, **details
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (http(ai.ModelRateLimitError, 429), "transient"),
        (http(ai.ModelServerError, 500), "transient"),
        (http(None, 408), "transient"),
        (ai.ModelConnectionError("m", "no route to host"), "transient"),
        (ai.ModelTimeoutError("m", "too slow"), "slow"),
        (ai.ModelAPIError("m", "something"), "transient"),
        (ai.UnexpectedModelBehavior("not JSON"), "transient"),
        (TimeoutError(), "slow"),
        (ConnectionResetError("reset"), "transient"),
        (http(ai.ModelRequestRejectedError, 400), "refused"),
        (ValueError("cannot be decoded"), "refused"),
        (http(None, 413), "refused"),
        (wrapped(ai.ModelAPIError("m", "too large"), VoyageLikeError()), "refused"),
        (http(ai.ModelAuthenticationError, 401), "unavailable"),
        (http(ai.ModelNotFoundError, 404), "unavailable"),
        (http(None, 405), "unavailable"),
        (ai.UserError("no such setting"), "unavailable"),
        (ImportError("no module"), "unavailable"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_each_error_of_a_provider_is_classified(error, kind):
    embedder = ProviderEmbedder(HashingModel(error=error))

    with pytest.raises(EmbeddingError, match="hashing:sha256") as caught:
        asyncio.run(embedder.embed_documents(["one"]))

    assert caught.value.kind is FailureKind(kind)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "1000000"}, 3600.0),
        ({}, None),
    ],
)
def test_a_providers_retry_after_is_respected(headers, seconds):
    error = http(ai.ModelRateLimitError, 429, headers=headers)

    with pytest.raises(EmbeddingError) as caught:
        asyncio.run(ProviderEmbedder(HashingModel(error=error)).embed_query("one"))

    assert caught.value.retry_after == seconds


def test_a_key_in_a_providers_message_is_redacted(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-1234/5678")
    monkeypatch.setenv("OTHER_TOKEN", "sk-1234/5678-9")
    monkeypatch.setenv("SHORT_KEY", "http")
    said = "no sk-1234/5678-9, sk-1234%2F5678 at http://me:pw@host/v1"

    with pytest.raises(EmbeddingError) as caught:
        asyncio.run(ProviderEmbedder(HashingModel(error=ai.UserError(said))).embed_query("one"))

    expected = "no [OTHER_TOKEN], [SOME_API_KEY] at http://…@host/v1"
    assert str(caught.value).endswith(expected)


def test_a_model_that_cannot_be_loaded_is_unavailable():
    """It is not retried, because each attempt could be a download."""
    model = HashingModel(error=OSError("no model of that name"), system="sentence-transformers")

    with pytest.raises(EmbeddingError, match="no model of that name") as caught:
        asyncio.run(ProviderEmbedder(model).embed_query("one"))

    assert caught.value.kind is FailureKind.UNAVAILABLE


def test_a_provider_that_does_not_answer_times_out(monkeypatch):
    class Silent(HashingModel):
        async def embed(self, inputs, *, input_type, settings=None):
            await asyncio.Event().wait()

    monkeypatch.setattr("toolembed._provider._REQUEST_SECONDS", 0.01)
    with pytest.raises(EmbeddingError, match=r"no answer within 0\.01 s") as caught:
        asyncio.run(ProviderEmbedder(Silent()).embed_query("one"))

    assert caught.value.kind is FailureKind.SLOW


def test_a_model_whose_loading_was_cancelled_is_loaded_again():
    embedder = create_embedder("test")

    async def in_a_hurry():
        task = asyncio.create_task(embedder.embed_query("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(in_a_hurry())

    assert asyncio.run(embedder.embed_query("one")) == [1.0] * 8


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("together:x", "together:x"),
        ("voyageai:voyage-4", r"voyage-4.*install \"toolembed\[voyageai\]"),
        ("nobody:model", "nobody"),
    ],
    ids=["no key", "no package", "no such provider"],
)
def test_a_provider_that_cannot_be_used_is_named(monkeypatch, model, message):
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    with pytest.raises(EmbeddingError, match=message) as caught:
        asyncio.run(create_embedder(model).embed_query("one"))
    assert caught.value.kind is FailureKind.UNAVAILABLE


def test_dimensions_that_the_default_does_not_support_are_ignored(caplog):
    assert create_embedder("none") is None
    create_embedder("static", dimensions=3072)

    assert "3072 is ignored" in caplog.text


@pytest.mark.parametrize(
    ("setting", "dimensions", "model_id"),
    [
        ("static", None, "static:tools2"),
        ("openai:text-embedding-3-small", None, "openai:text-embedding-3-small"),
        ("openai:text-embedding-3-small", 512, "openai:text-embedding-3-small@512"),
        ("google-gla:gemini-embedding-001", 3072, "google:gemini-embedding-001@3072"),
        ("google-vertex:text-embedding-005", None, "google-cloud:text-embedding-005"),
        ("test", None, "test"),
    ],
)
def test_models_with_different_vectors_have_different_ids(setting, dimensions, model_id):
    assert create_embedder(setting, dimensions=dimensions).model_id == model_id


@pytest.mark.parametrize(
    "damage",
    [
        lambda weights: b"",
        lambda weights: b"<html>404 Not Found</html>",
        lambda weights: weights[:-1],
        lambda weights: weights.replace(b'"document"', b'"dokument"', 1),
        lambda weights: weights.replace(b"[256,256]", b"[128,512]", 1),
    ],
    ids=["empty", "text", "truncated", "no document map", "wrong dimensions"],
)
def test_damaged_weights_are_reported_and_not_used(tmp_path, damage):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(damage(_WEIGHTS.read_bytes()))

    with pytest.raises(EmbeddingError, match=r"its weights .* reinstall toolembed"):
        StaticEmbedder(weights=file).encode_queries(["anything"])


def test_custom_weights_count_as_another_model(tmp_path):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(_WEIGHTS.read_bytes())
    own = StaticEmbedder(weights=file)

    assert own.encode_queries(["find"]) == StaticEmbedder().encode_queries(["find"])
    assert own.model_id != StaticEmbedder().model_id
    with pytest.raises(OSError, match="absent"):
        StaticEmbedder(weights=tmp_path / "absent")
