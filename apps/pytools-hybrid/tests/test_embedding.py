"""Embedders: the offline default, and whatever pydantic-ai offers."""

import asyncio
import hashlib
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Embedder
from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult
from pytools_hybrid import EmbeddingError
from pytools_hybrid.embedding import StaticEmbedder, create_embedder
from pytools_hybrid.embedding._provider import ProviderEmbedder
from pytools_hybrid.embedding.pydantic_ai import StaticEmbeddingModel
from toolindex.testing import check_embedder


class HashingModel(EmbeddingModel):
    """A model whose vectors depend on the text, and that counts its requests."""

    def __init__(self, *, most_texts=64, answers=None):
        super().__init__()
        self.requests = []
        self._most_texts = most_texts
        self._answers = answers

    @property
    def system(self):
        return "hashing"

    @property
    def model_name(self):
        return "sha256"

    async def embed(self, inputs, *, input_type, settings=None):
        texts, _ = self.prepare_embed(inputs, settings)
        assert len(texts) <= self._most_texts, "the provider refuses so many texts at once"
        self.requests.append((input_type, len(texts)))
        vectors = [
            [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()] for text in texts
        ]
        return EmbeddingResult(
            embeddings=vectors[: self._answers],
            inputs=texts,
            input_type=input_type,
            model_name=self.model_name,
            provider_name=self.system,
        )


@pytest.mark.parametrize(
    "embedder",
    [
        create_embedder("wordllama"),
        create_embedder("test"),
        create_embedder("test", dimensions=24),
        ProviderEmbedder(StaticEmbeddingModel()),
        ProviderEmbedder(HashingModel()),
    ],
    ids=["wordllama", "test", "test@24", "wordllama through pydantic-ai", "a model object"],
)
def test_every_embedder_keeps_the_contract(embedder):
    asyncio.run(check_embedder(embedder))


def test_none_is_no_embedder():
    assert create_embedder("none") is None


def cosine(one, other):
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)


def test_the_offline_default_knows_what_words_mean():
    query, near, far = StaticEmbedder().encode(
        ["delete a file", "remove documents from disk", "weather forecast for tomorrow"]
    )

    assert len(query) == 256
    assert cosine(query, near) > cosine(query, far) + 0.1


@given(st.lists(st.text(max_size=300), max_size=8))
def test_a_text_has_the_same_vector_alone_and_in_any_batch(texts):
    embedder = StaticEmbedder()
    padding = ["a long text so that the batch takes the other way " * 20]

    assert [embedder.encode([text])[0] for text in texts] == embedder.encode(texts + padding)[:-1]


def test_the_pydantic_ai_model_gives_the_same_vectors():
    texts = ["open an issue", "merge two files"]

    async def through_pydantic_ai():
        result = await Embedder(StaticEmbeddingModel()).embed_documents(texts)
        return [list(vector) for vector in result.embeddings]

    assert asyncio.run(through_pydantic_ai()) == StaticEmbedder().encode(texts)


def test_many_texts_go_in_requests_that_a_provider_takes():
    model = HashingModel()

    vectors = asyncio.run(
        ProviderEmbedder(model).embed_documents([f"text {number}" for number in range(150)])
    )

    assert len(vectors) == 150
    assert model.requests == [("document", 64), ("document", 64), ("document", 22)]


def test_queries_are_embedded_as_queries():
    model = HashingModel()

    asyncio.run(ProviderEmbedder(model).embed_query("find"))

    assert model.requests == [("query", 1)]


def test_a_provider_that_gives_too_few_vectors_is_named():
    embedder = ProviderEmbedder(HashingModel(answers=1))

    with pytest.raises(EmbeddingError, match=r"hashing:sha256.*1 vectors for 2 texts"):
        asyncio.run(embedder.embed_documents(["one", "two"]))


def test_a_provider_without_its_package_is_named_with_the_remedy():
    embedder = create_embedder("openai:text-embedding-3-small")

    with pytest.raises(EmbeddingError, match=r"3-small.*pip install \"pytools-hybrid\[openai\]"):
        asyncio.run(embedder.embed_query("anything"))


def test_dimensions_that_the_default_does_not_have_are_pointed_out(caplog):
    create_embedder("wordllama", dimensions=3072)

    assert "3072 is ignored" in caplog.text


def test_an_unknown_provider_is_named():
    with pytest.raises(EmbeddingError, match="nobody"):
        asyncio.run(create_embedder("nobody:model").embed_query("anything"))


@pytest.mark.parametrize(
    ("setting", "dimensions", "model_id"),
    [
        ("wordllama", None, "wordllama:l2_supercat_256"),
        ("openai:text-embedding-3-small", None, "openai:text-embedding-3-small"),
        ("openai:text-embedding-3-small", 512, "openai:text-embedding-3-small@512"),
        ("google-gla:gemini-embedding-001", 3072, "google:gemini-embedding-001@3072"),
        ("google-vertex:text-embedding-005", None, "google-cloud:text-embedding-005"),
        ("test", None, "test"),
    ],
)
def test_the_model_id_tells_apart_what_gives_other_vectors(setting, dimensions, model_id):
    assert create_embedder(setting, dimensions=dimensions).model_id == model_id


def test_wordllamas_own_code_is_never_imported():
    code = (
        "import sys\n"
        "from pytools_hybrid.embedding import StaticEmbedder\n"
        "StaticEmbedder().encode(['a query'])\n"
        "assert not {'wordllama', 'numpy', 'pydantic_ai'} & set(sys.modules)\n"
        "StaticEmbedder().encode(['many documents'] * 1000)\n"
        "assert 'wordllama' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_damaged_data_files_are_reported_and_not_used(tmp_path, monkeypatch, damage):
    package = tmp_path / "wordllama"
    (package / "weights").mkdir(parents=True)
    (package / "tokenizers").mkdir()
    (package / "__init__.py").touch()
    if damage == "altered":
        from importlib.util import find_spec
        from pathlib import Path

        real = Path(find_spec("wordllama").submodule_search_locations[0])
        name = "tokenizers/l2_supercat_tokenizer_config.json"
        (package / name).write_bytes((real / name).read_bytes())
        (package / "weights/l2_supercat_256.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(EmbeddingError, match="wordllama"):
        StaticEmbedder().encode(["anything"])


def test_a_missing_package_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(EmbeddingError, match="not installed"):
        StaticEmbedder().encode(["anything"])
