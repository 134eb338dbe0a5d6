"""The accurate model: a transformer and the static vectors, combined."""

import asyncio
import math
import sys
import threading
from operator import mul

import pytest
from toolembed import EmbeddingError, FailureKind, StaticEmbedder, create_embedder
from toolembed._accurate import AccurateEmbedder
from toolembed.providers import default_model


@pytest.fixture(scope="module")
def embedder():
    return AccurateEmbedder()


def cosine(a, b):
    return sum(map(mul, a, b)) / math.hypot(*a) / math.hypot(*b)


def test_a_cosine_is_70_percent_transformer_and_30_percent_static(embedder):
    request, tool = "remove a file", "Delete a document from disk."
    ours = embedder.encode_queries([request])[0], embedder.encode_documents([tool])[0]
    alone = StaticEmbedder()
    static = cosine(alone.encode_queries([request])[0], alone.encode_documents([tool])[0])
    transformer = cosine(*(vector[:384] for vector in ours))

    assert cosine(*ours) == pytest.approx(0.7 * transformer + 0.3 * static, abs=1e-5)


def test_a_text_has_the_same_vector_alone_and_among_longer_ones(embedder):
    texts = ["short", "a text of some more words than the first one has", "", "word " * 300]
    together = embedder.encode_documents(texts)
    for text, vector in zip(texts, together, strict=True):
        assert embedder.encode_documents([text])[0] == pytest.approx(vector, abs=1e-5)


def test_the_transformer_ignores_the_end_of_a_long_text(embedder):
    begin = "word " * 200
    long, longer = embedder.encode_documents([begin, begin + "something else entirely"])

    assert long[:384] == pytest.approx(longer[:384], abs=1e-6)


def test_embedding_uses_one_thread_without_setting_their_number():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    done, seen = threading.Event(), set()
    controller = threadpoolctl.ThreadpoolController()

    def watch():
        while not done.is_set():
            seen.add(tuple(it["num_threads"] for it in controller.info()))

    before = tuple(it["num_threads"] for it in controller.info())
    watching = threading.Thread(target=watch)
    watching.start()
    AccurateEmbedder().encode_documents(["Merge several files into one.", "word " * 300])
    done.set()
    watching.join()
    assert seen == {before}


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "toolembed_accurate", None)
    embedder = create_embedder("accurate")
    with pytest.raises(EmbeddingError, match=r'install "toolembed\[accurate\]"') as caught:
        asyncio.run(embedder.embed_query("anything"))

    assert caught.value.kind is FailureKind.UNAVAILABLE


def test_it_is_the_default_if_its_weights_are_installed():
    assert default_model() == "accurate"


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"\x02" + b"\0" * 7 + b"{}"])
def test_a_file_without_valid_weights_is_refused(tmp_path, content):
    weights = tmp_path / "weights"
    weights.write_bytes(content)
    with pytest.raises(EmbeddingError, match="it cannot be loaded"):
        AccurateEmbedder(weights=weights).encode_queries(["anything"])
