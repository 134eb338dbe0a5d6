"""The static model: vectors of word pieces, summed over a text.

They are distilled from a transformer and trained on requests and the tools that answer them
(decision 22). Queries and documents say the same thing in different words, so each kind has a
separate linear map; the map of queries is already part of the vectors.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import mmap
import struct
import sys
import threading
from array import array
from dataclasses import dataclass
from importlib.util import find_spec
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolembed._errors import EmbeddingError, FailureKind
from toolembed._protocols import EmbeddingLimits
from toolembed._wordpieces import UNKNOWN, word_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from toolembed._wordpieces import WordPieces

MODEL_ID = "static:tools2"
DIMENSIONS = 256

_WEIGHTS = Path(__file__).with_name("tools2.safetensors")
# Nearly any two or three letters are a piece.
_SHORT = 4
_ENDINGS = ("", "s", "es", "ed", "ing", "er", "ers", "ly")
# A tool's name and purpose come first: the 20th piece has half the weight.
_HALF_SAY = 20
# On one core, 64 to 1,024 texts at a time all take 0.1 ms per text; a kill costs one batch.
_LIMITS = EmbeddingLimits(texts_per_request=256)
# OpenBLAS divides larger products among threads, which wait for each other at full load.
_ROWS = 4
# For this many queries, plain Python finishes before numpy could be imported.
_FEW_QUERIES = 8


@dataclass(frozen=True, slots=True)
class _Model:
    """The weights: for each piece a vector in 8 bits with its scale, and the documents' map.

    Attributes:
        table: Where the vectors begin.
        scales: Where the scales begin, one for each vector, in half precision.
        document: Where the map begins: a sum `v` becomes `v @ map`, in half precision.
    """

    pieces: WordPieces
    data: mmap.mmap | bytes
    table: int
    scales: int
    document: int

    def array(self, kind: str, offset: int, columns: int) -> np.ndarray[Any, Any]:
        import numpy as np

        count = columns * (DIMENSIONS if offset == self.document else len(self.pieces))
        return np.frombuffer(self.data, kind, count, offset).reshape(-1, columns)

    def numbers(self, text: str) -> list[int]:
        return self.pieces.numbers(text) or [UNKNOWN]


class LocalEmbedder:
    """What our two models share: an id that depends on the weights, and worker threads.

    Attributes:
        model_id: The name under which the vectors are stored.
        dimensions: The length of the vectors.
        limits: Batch size; batches run one at a time because each uses a whole core.
    """

    def __init__(
        self, model_id: str, weights: Path | None, *, dimensions: int, limits: EmbeddingLimits
    ) -> None:
        self._given = None if weights is None else weights.read_bytes()
        # Read several times in each search, and hashing takes as long as a search.
        if self._given is not None:
            digest = hashlib.sha256(self._given).hexdigest()[:12]
            model_id = f"{model_id.partition(':')[0]}:{digest}"
        self.model_id: str = model_id
        self.dimensions: int = dimensions
        self.limits: EmbeddingLimits = limits
        self._lock = threading.Lock()

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents, in a worker thread."""
        return await asyncio.to_thread(self.encode_documents, list(texts))

    async def embed_query(self, text: str) -> list[float]:
        """Embed a query, in a worker thread."""
        return (await asyncio.to_thread(self.encode_queries, [text]))[0]

    def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents: one list of `dimensions` floats for each."""
        raise NotImplementedError

    def encode_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed queries: one list of `dimensions` floats for each."""
        raise NotImplementedError


class StaticEmbedder(LocalEmbedder):
    """Embeds with static vectors of 256 dimensions that come with this package.

    No network, no GPU, and no numpy for a query. A query's vector is the sum of its pieces'
    vectors; in a document, the first pieces have the most weight, and the sum is multiplied by a
    map. All have unit length. It embeds thousands of descriptions a second on one core. Implements
    `toolembed.Embedder`; `.encode_documents` and `.encode_queries` do the same without async.

    Args:
        weights: Your own weights, as made by benchmarks/quality/train; None for ours.

    Raises:
        EmbeddingError: (on first use) The weights are missing or are not the expected ones.
        OSError: `weights` cannot be read.
    """

    def __init__(self, *, weights: Path | None = None) -> None:
        super().__init__(MODEL_ID, weights, dimensions=DIMENSIONS, limits=_LIMITS)
        self._model: _Model | None = None

    @property
    def is_instant(self) -> bool:
        """Whether a few documents can be embedded within milliseconds: only numpy may be loaded."""
        return self._model is not None and find_spec("numpy") is not None

    def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        model = self._loaded()
        try:
            return _documents(model, texts)
        except ImportError as error:
            raise _failure(f"numpy cannot be imported ({error}); reinstall it") from error

    def encode_queries(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        model = self._loaded()
        if len(texts) <= _FEW_QUERIES and sys.modules.get("numpy") is None:
            return [_query(model, text) for text in texts]
        return _unit(_sums(model, [(model.numbers(text), 1.0) for text in texts]))

    def knows(self, word: str) -> bool:
        """Return whether the vectors know a lower-case word as a whole, apart from its ending.

        Of a misspelt word they only know the pieces, which do not reveal its meaning.
        """
        if len(word) < _SHORT:
            return True
        pieces = self._loaded().pieces
        stems = [word.removesuffix(ending) for ending in _ENDINGS]
        return any(
            f"{stem}{end}" in pieces for stem in stems if len(stem) >= _SHORT for end in ("", "e")
        )

    def _loaded(self) -> _Model:
        with self._lock:
            if self._model is None:
                self._model = _load(self._given)
            return self._model


class Tensor(NamedTuple):
    """The type and shape of a tensor, and its position in a file of safetensors, in bytes."""

    kind: str
    shape: list[int]
    start: int
    end: int


def read_header(data: mmap.mmap | bytes) -> dict[str, Tensor]:
    """Return the tensors of a file by name, without checking the file's length.

    Raises:
        ValueError: The file has another format.
    """
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        return {
            name: Tensor(
                about["dtype"],
                about["shape"],
                *(8 + length + offset for offset in about["data_offsets"]),
            )
            for name, about in header.items()
        }
    except (AttributeError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"it is not in the format safetensors: {error!r}") from error


def map_file(path: Path) -> mmap.mmap:
    """Map a file into memory: half of it are word pieces, of which a request needs ten."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _load(given: bytes | None) -> _Model:
    try:
        data = map_file(_WEIGHTS) if given is None else given
        pieces = word_pieces()
        header = read_header(data)
        tensors = {name: header[name] for name in ("table", "scale", "document")}
    except (OSError, ValueError, KeyError) as error:
        raise _failure(f"its weights cannot be read ({error!r}); reinstall toolembed") from error
    expected = {
        "table": ("I8", [len(pieces), DIMENSIONS]),
        "scale": ("F16", [len(pieces)]),
        "document": ("F16", [DIMENSIONS, DIMENSIONS]),
    }
    found = {name: (it.kind, it.shape) for name, it in tensors.items()}
    if found != expected or len(data) < max(it.end for it in tensors.values()):
        raise _failure(f"its weights are {found}, not {expected}; reinstall toolembed")
    return _Model(pieces, data, *(tensors[name].start for name in ("table", "scale", "document")))


def _failure(reason: str) -> EmbeddingError:
    return EmbeddingError(MODEL_ID, reason, kind=FailureKind.UNAVAILABLE)


def _documents(model: _Model, texts: Sequence[str]) -> list[list[float]]:
    import numpy as np

    numbers = [model.numbers(text) for text in texts]
    say = 1 / (1 + np.arange(max(map(len, numbers))) / _HALF_SAY)
    sums = _sums(model, [(each, say[: len(each)]) for each in numbers])
    document = model.array("<f2", model.document, DIMENSIONS).astype("<f8")
    mapped = [sums[at : at + _ROWS] @ document for at in range(0, len(sums), _ROWS)]
    return _unit(np.concatenate(mapped))


def _sums(
    model: _Model, weighted: Sequence[tuple[list[int], float | np.ndarray[Any, Any]]]
) -> np.ndarray[Any, Any]:
    import numpy as np

    table = model.array("|i1", model.table, DIMENSIONS)
    scales = model.array("<f2", model.scales, 1)[:, 0]
    return np.array([(say * scales[each].astype("<f8")) @ table[each] for each, say in weighted])


def _unit(rows: np.ndarray[Any, Any]) -> list[list[float]]:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors: list[list[float]] = (rows / np.where(lengths, lengths, 1)).tolist()
    return vectors


def _query(model: _Model, text: str) -> list[float]:
    """Do the same for one query without numpy."""
    numbers = model.numbers(text)
    scales = [
        struct.unpack_from("<e", model.data, model.scales + 2 * number)[0] for number in numbers
    ]
    starts = [model.table + DIMENSIONS * number for number in numbers]
    rows = [array("b", model.data[start : start + DIMENSIONS]) for start in starts]
    sums = [sum(map(mul, scales, column)) for column in zip(*rows, strict=True)]
    length = math.hypot(*sums) or 1.0
    return [each / length for each in sums]
