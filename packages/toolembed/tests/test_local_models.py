"""Models of sentence-transformers are loaded from this machine, and never downloaded."""

import asyncio
import sys

import pytest
from toolembed import EmbeddingError, FailureKind, create_embedder
from toolembed.downloads import _folder_of, _needed, _not_downloaded, _repository_of
from toolembed.providers import InstallHints


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("BAAI/bge-small-en-v1.5", "BAAI/bge-small-en-v1.5"),
        ("./model", None),
        ("~/model", None),
        ("..", None),
        ("../up/model", None),
        ("a/b/c", None),
        ("a b", None),
        ("", None),
    ],
)
def test_a_model_name_without_an_owner_is_from_sentence_transformers(name, repository):
    assert _repository_of(name) == repository


@pytest.mark.skipif(sys.platform == "win32", reason="paths begin differently on Windows")
def test_a_model_folder_is_identified_by_its_full_path(tmp_path):
    (tmp_path / "all-MiniLM-L6-v2").mkdir()

    assert _repository_of("all-MiniLM-L6-v2") == "sentence-transformers/all-MiniLM-L6-v2"
    assert _repository_of(str(tmp_path / "all-MiniLM-L6-v2")) is None
    assert _folder_of(str(tmp_path / "all-MiniLM-L6-v2"))
    assert not _folder_of(str(tmp_path / "absent"))


def test_files_for_other_programs_are_not_downloaded():
    files = [
        "modules.json", "config.json", "1_Pooling/config.json", "2_Dense/pytorch_model.bin",
        "2_Dense/config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5",
        "rust_model.ot", "onnx/model.onnx", "onnx/model_qint8.onnx", "openvino/openvino_model.xml",
        "flax_model.msgpack", "README.md", ".gitattributes", "vocab.txt", "tokenizer.json",
    ]  # fmt: skip

    assert list(_needed(files)) == [
        "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/pytorch_model.bin",
        "model.safetensors", "tokenizer.json", "vocab.txt", "config.json", "modules.json",
    ]  # fmt: skip
    # Without newer weights, old ones are used.
    assert "pytorch_model.bin" in _needed(["config.json", "pytorch_model.bin", "tf_model.h5"])


def test_the_error_names_the_download_command():
    told = InstallHints(download="fetch {model}")

    assert str(_not_downloaded("tiny", told)) == (
        "it is not downloaded; run: fetch sentence-transformers:tiny"
    )
    assert str(_not_downloaded("tiny", InstallHints())) == (
        "it is not downloaded; run: hf download sentence-transformers/tiny"
    )
    assert "it cannot be loaded (no weights)" in str(_not_downloaded("tiny", told, "no weights"))
    assert "no such folder" in str(_not_downloaded("./tiny", told))
    assert "(no weights); give" in str(_not_downloaded("./tiny", told, "no weights"))


# With the package installed, and a model of a few kilobytes that is created here


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A transformer with one layer and a vocabulary of a dozen words."""
    pytest.importorskip("sentence_transformers", reason="the extra is not installed")
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    special_words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special_words, "merge", "two", "pdf", "files", "send", "a", "message"]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {f"{it}_token": f"[{it.upper()}]" for it in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / "bert")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(
        BertConfig(vocab_size=len(words), intermediate_size=32, max_position_embeddings=64, **shape)
    ).save_pretrained(folder / "bert")
    SentenceTransformer(str(folder / "bert")).save(str(folder / "tiny"))
    return folder / "tiny"


def embed(embedder, *texts):
    return asyncio.run(embedder.embed_documents(texts))


def test_a_model_in_a_folder_embeds(model):
    vectors = embed(create_embedder(f"sentence-transformers:{model}"), "merge pdf", "send")

    assert [len(vector) for vector in vectors] == [16, 16]
    assert vectors[0] != vectors[1]


def test_vectors_have_the_requested_dimensions(model):
    embedder = create_embedder(f"sentence-transformers:{model}", dimensions=4)

    assert len(embed(embedder, "merge pdf")[0]) == 4


def test_a_missing_device_is_reported_with_the_setting(model):
    embedder = create_embedder(f"sentence-transformers:{model}", device="mps:7")

    with pytest.raises(EmbeddingError, match="set device to 'auto'") as caught:
        embed(embedder, "merge pdf")
    assert caught.value.kind is FailureKind.UNAVAILABLE


def test_a_model_with_damaged_files_is_reported(model, tmp_path):
    import shutil

    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "config.json").unlink()

    with pytest.raises(EmbeddingError, match="it cannot be loaded"):
        embed(create_embedder(f"sentence-transformers:{broken}"), "merge pdf")


def test_a_missing_model_is_not_downloaded(model, monkeypatch):
    """No server is contacted: the error would mention the failed connection."""
    with pytest.raises(EmbeddingError, match="run: hf download sentence-transformers/no-such"):
        embed(create_embedder("sentence-transformers:no-such-model-anywhere"), "merge pdf")
