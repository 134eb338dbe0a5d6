"""The offline default: static word vectors, averaged over a text's tokens and mapped.

A text that searches and one that is searched for say the same thing in other words, so each kind
has a linear map of its own, learned from requests and the tools that answer them (decision 9).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import mmap
import struct
import sys
import threading
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolembed.errors import EmbeddingError, FailureKind
from toolembed.protocols import EmbeddingLimits
from toolembed.providers import OFFLINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from tokenizers import Tokenizer

__all__ = ["DIMENSIONS", "MODEL_ID", "StaticEmbedder"]

_TOKENS_ID = f"{OFFLINE}:l2_supercat_256"
MODEL_ID = f"{_TOKENS_ID}+tools1"
DIMENSIONS = 256

_WEIGHTS = Path("weights/l2_supercat_256.safetensors")
_WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER = Path("tokenizers/l2_supercat_tokenizer_config.json")
_MAPS = "tools1.safetensors"
_ROW_BYTES = 2 * DIMENSIONS
_UNKNOWN_TOKEN = 0
# Nearly any two or three letters are a token.
_PIECE = 4
_ENDINGS = ("", "s", "es", "ed", "ing", "er", "ers", "ly")
# What a tool is called and what it does stands first: the 20th token has half the say.
_HALF_SAY = 20
# On one core 64 to 1,024 texts at a time take the same 0.2 ms a text; a kill costs one batch.
_LIMITS = EmbeddingLimits(texts_per_request=256)
# For this many queries, plain Python is done before numpy would be imported; where it is
# imported already, it is a hundred times faster.
_FEW_QUERIES = 8


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A matrix of half-precision numbers in a file: `rows` of `DIMENSIONS` from `offset` on."""

    data: mmap.mmap | bytes
    offset: int
    rows: int

    def row(self, number: int) -> tuple[float, ...]:
        offset = self.offset + _ROW_BYTES * number
        return struct.unpack_from(f"<{DIMENSIONS}e", self.data, offset)

    def array(self) -> np.ndarray[Any, np.dtype[np.float16]]:
        import numpy as np

        count = self.rows * DIMENSIONS
        found = np.frombuffer(self.data, dtype="<f2", count=count, offset=self.offset)
        return found.reshape(self.rows, DIMENSIONS)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """wordllama: the tokens of a text, and a vector for each token."""

    tokenizer: Tokenizer
    vectors: _Tensor


@dataclass(frozen=True, slots=True)
class _Model:
    """The vectors of tokens, and the maps: a mean `v` of them becomes `v @ map`."""

    tokens: _Tokens
    query_map: _Tensor
    document_map: _Tensor


class StaticEmbedder:
    """Embeds with wordllama's 256-dimension vectors, read from its installed data files.

    No network, no GPU, no code of wordllama's. A query's vector is the mean of its tokens'
    vectors, a document's a mean in which the first tokens say most; each goes through its map.
    Thousands of descriptions a second on one core. Satisfies `toolembed.Embedder`.

    Args:
        maps: A file of other maps, as benchmarks/quality/train_maps.py learns them from one's own
            tools and requests; None for ours.

    Raises:
        EmbeddingError: (on first use) The data files are missing or are not the ones expected.
        OSError: The file of maps cannot be read.
    """

    def __init__(self, *, maps: Path | None = None) -> None:
        self._maps = None if maps is None else maps.read_bytes()
        self._model: _Model | None = None
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """The name under which the vectors are kept."""
        if self._maps is None:
            return MODEL_ID
        return f"{_TOKENS_ID}+{hashlib.sha256(self._maps).hexdigest()[:12]}"

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return DIMENSIONS

    @property
    def limits(self) -> EmbeddingLimits:
        """How many texts to embed at once: all cores are used by one batch."""
        return _LIMITS

    @property
    def is_instant(self) -> bool:
        """Whether a few documents are embedded within milliseconds: nothing has to be loaded.

        But for numpy, the first time.
        """
        return self._model is not None and find_spec("numpy") is not None

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that will be searched for, in a worker thread."""
        return await asyncio.to_thread(self.encode_documents, list(texts))

    async def embed_query(self, text: str) -> list[float]:
        """Embed a text that searches, in a worker thread."""
        return (await asyncio.to_thread(self.encode_queries, [text]))[0]

    def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that will be searched for: one list of `DIMENSIONS` floats for each."""
        if not texts:
            return []
        model = self._loaded()
        try:
            return _mapped(model.tokens, texts, model.document_map, decay=True)
        except ImportError as error:
            raise _failure(f"numpy cannot be imported ({error}); reinstall it") from error

    def encode_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that search: one list of `DIMENSIONS` floats for each."""
        if not texts:
            return []
        model = self._loaded()
        if len(texts) <= _FEW_QUERIES and sys.modules.get("numpy") is None:
            return [_mapped_alone(model.tokens, text, model.query_map) for text in texts]
        return _mapped(model.tokens, texts, model.query_map, decay=False)

    def knows(self, word: str) -> bool:
        """Return whether a lower-case word is one that the vectors know as such, endings aside.

        Of a misspelt word they know the pieces only, which say nothing of it.
        """
        if len(word) < _PIECE:
            return True
        find = self._loaded().tokens.tokenizer.token_to_id
        stems = [word.removesuffix(ending) for ending in _ENDINGS]
        return any(
            find(f"\u2581{stem}{end}") is not None
            for stem in stems
            if len(stem) >= _PIECE
            for end in ("", "e")
        )

    def _loaded(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = _load(self._maps)
            return self._model


def _load(given: bytes | None) -> _Model:
    tokens = load_tokens()
    try:
        maps = _tensors(given or files(__package__).joinpath(_MAPS).read_bytes())
        shapes = [maps[name].rows for name in ("query", "document")]
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise _failure(f"its maps cannot be read ({error!r})") from error
    if shapes != [DIMENSIONS, DIMENSIONS]:
        raise _failure(f"its maps have {shapes} rows, not {DIMENSIONS}")
    return _Model(tokens=tokens, query_map=maps["query"], document_map=maps["document"])


def load_tokens() -> _Tokens:
    """Load what wordllama gives, without the maps.

    Raises:
        EmbeddingError: The data files are missing or are not the ones expected.
    """
    from tokenizers import Tokenizer

    # find_spec finds the folder without running the package's code.
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise _failure("the package wordllama is not installed; reinstall toolembed")
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
    tokenizer.no_truncation()
    tokenizer.no_padding()
    (vectors,) = _tensors(weights).values()
    return _Tokens(tokenizer=tokenizer, vectors=vectors)


def _tensors(data: mmap.mmap | bytes) -> dict[str, _Tensor]:
    """Find the tensors of a safetensors file: length of the header, header in JSON, tensors."""
    (header_length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + header_length])
    return {
        name: _Tensor(data, 8 + header_length + found["data_offsets"][0], found["shape"][0])
        for name, found in header.items()
        if name != "__metadata__"
    }


def _failure(reason: str) -> EmbeddingError:
    return EmbeddingError(MODEL_ID, reason, kind=FailureKind.UNAVAILABLE)


def means(tokens: _Tokens, texts: Sequence[str], *, decay: bool) -> np.ndarray[Any, Any]:
    """Return the mean of each text's token vectors, of shape `(len(texts), DIMENSIONS)`.

    Args:
        tokens: The vectors.
        texts: At least one.
        decay: Whether the first tokens of a text say more than those that follow.
    """
    import numpy as np

    vectors = tokens.vectors.array()
    token_ids = _token_ids(tokens, texts)
    longest = max(map(len, token_ids))
    say = 1 / (1 + np.arange(longest) / _HALF_SAY) if decay else np.ones(longest)
    sums = [say[: len(ids)] @ vectors[ids] / say[: len(ids)].sum() for ids in token_ids]
    return np.array(sums)


def _token_ids(tokens: _Tokens, texts: Sequence[str]) -> list[list[int]]:
    # Half of a surrogate pair is text that no tokenizer takes.
    clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    encodings = tokens.tokenizer.encode_batch(clean, add_special_tokens=False)
    return [encoding.ids or [_UNKNOWN_TOKEN] for encoding in encodings]


def _mapped(
    tokens: _Tokens, texts: Sequence[str], map_: _Tensor, *, decay: bool
) -> list[list[float]]:
    vectors: list[list[float]] = (
        means(tokens, texts, decay=decay) @ map_.array().astype("<f8")
    ).tolist()
    return vectors


def _mapped_alone(tokens: _Tokens, text: str, map_: _Tensor) -> list[float]:
    """Do the same for one text without numpy, all of whose tokens have the same say."""
    (ids,) = _token_ids(tokens, [text])
    mean = [sum(column) / len(ids) for column in zip(*map(tokens.vectors.row, ids), strict=True)]
    columns = zip(*map(map_.row, range(DIMENSIONS)), strict=True)
    return [sum(map(mul, mean, column)) for column in columns]
