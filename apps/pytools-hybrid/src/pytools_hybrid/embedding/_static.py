"""The offline default: static word vectors, averaged over a text's tokens."""

from __future__ import annotations

import asyncio
import hashlib
import json
import mmap
import struct
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolindex import EmbeddingError, EmbeddingLimits, FailureKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

__all__ = ["DIMENSIONS", "MODEL_ID", "MODEL_NAME", "StaticEmbedder"]

MODEL_NAME = "wordllama"
MODEL_ID = "wordllama:l2_supercat_256"
DIMENSIONS = 256

_WEIGHTS = Path("weights/l2_supercat_256.safetensors")
_WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER = Path("tokenizers/l2_supercat_tokenizer_config.json")
_ROW_BYTES = 2 * DIMENSIONS
_UNKNOWN_TOKEN = 0
# On one core 64 to 1,024 texts at a time take the same 0.2 ms a text; a kill costs one batch.
_LIMITS = EmbeddingLimits(texts_per_request=256)
# Below this many tokens, plain Python is done before numpy would be imported.
_FEW_TOKENS = 256


@dataclass(frozen=True, slots=True)
class _Model:
    tokenizer: Tokenizer
    weights: mmap.mmap
    offset: int
    rows: int


class StaticEmbedder:
    """Embeds with wordllama's 256-dimension vectors, read from its installed data files.

    No network, no GPU, no code of wordllama's. A text's vector is the mean of its tokens'
    vectors; thousands of descriptions a second on one core. Satisfies `toolindex.Embedder`.

    Raises:
        EmbeddingError: (on first use) The data files are missing or are not the ones expected.
    """

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """The name under which the vectors are kept."""
        return MODEL_ID

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return DIMENSIONS

    @property
    def limits(self) -> EmbeddingLimits:
        """How many texts to embed at once: all cores are used by one batch."""
        return _LIMITS

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that will be searched for, in a worker thread."""
        return await asyncio.to_thread(self.encode, list(texts))

    async def embed_query(self, text: str) -> list[float]:
        """Embed a text that searches; the same as for a document."""
        return (await self.embed_documents([text]))[0]

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts on this thread: one list of `DIMENSIONS` floats for each."""
        if not texts:
            return []
        model = self._loaded()
        # Half of a surrogate pair is text that no tokenizer takes.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        encodings = model.tokenizer.encode_batch(clean, add_special_tokens=False)
        token_ids = [encoding.ids or [_UNKNOWN_TOKEN] for encoding in encodings]
        if sum(map(len, token_ids)) <= _FEW_TOKENS:
            return [_mean(model, ids) for ids in token_ids]
        return _means(model, token_ids)

    def _loaded(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = _load()
            return self._model


def _load() -> _Model:
    from tokenizers import Tokenizer

    # find_spec finds the folder without running the package's code.
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise _failure("the package wordllama is not installed; reinstall us")
    folder = Path(spec.submodule_search_locations[0])
    try:
        with (folder / _WEIGHTS).open("rb") as file:
            # Read, and not through the map: that would make all of it memory of this process.
            found = hashlib.file_digest(file, "sha256").hexdigest()
            weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        tokenizer = Tokenizer.from_buffer((folder / _TOKENIZER).read_bytes())
    except (OSError, ValueError) as error:
        raise _failure(f"its data files cannot be read ({error})") from error
    if found != _WEIGHTS_SHA256:
        raise _failure(f"{folder / _WEIGHTS} is not the file expected; reinstall wordllama")
    # The safetensors format: length of the header, header in JSON, then the tensors.
    (header_length,) = struct.unpack_from("<Q", weights)
    header = json.loads(weights[8 : 8 + header_length])
    (tensor,) = (value for name, value in header.items() if name != "__metadata__")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return _Model(
        tokenizer=tokenizer,
        weights=weights,
        offset=8 + header_length + tensor["data_offsets"][0],
        rows=tensor["shape"][0],
    )


def _failure(reason: str) -> EmbeddingError:
    return EmbeddingError(MODEL_ID, reason, kind=FailureKind.UNAVAILABLE)


# The two ways below give bit-identical vectors: sums of half-precision values are exact in
# double precision, whatever their order.


def _mean(model: _Model, ids: Sequence[int]) -> list[float]:
    rows = [
        struct.unpack_from(f"<{DIMENSIONS}e", model.weights, model.offset + _ROW_BYTES * id_)
        for id_ in ids
    ]
    return [sum(column) / len(ids) for column in zip(*rows, strict=True)]


def _means(model: _Model, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
    import numpy as np

    table = np.frombuffer(
        model.weights, dtype="<f2", count=model.rows * DIMENSIONS, offset=model.offset
    ).reshape(model.rows, DIMENSIONS)
    return [(table[ids].sum(axis=0, dtype=np.float64) / len(ids)).tolist() for ids in token_ids]
