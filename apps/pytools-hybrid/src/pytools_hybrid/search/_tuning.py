"""Tuning from a user's own requests: a linear map of query vectors."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from array import array
from dataclasses import dataclass, field
from operator import mul
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolimport.system import read_regular_file

from pytools_hybrid.errors import PytoolsError, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_FORMAT = "pytools-hybrid tuning 1"
_MOST_BYTES = 64 << 20
_MOST_FACTORS = 256


# Compared by identity, not by its numbers: it is part of the key of cached answers.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuning:
    """A map of one model's query vectors: v + Σ (v · down) up, over all factors.

    Stored vectors are unchanged: scoring a mapped query is equivalent to mapping both sides.

    Attributes:
        model_id: The model.
        down: A vector of the model's length for each factor.
        up: As many vectors.
        requests: How many requests it was learned from.
        before: NDCG@10 without it, on requests that it was not learned from.
        after: NDCG@10 with it, on the same requests.
    """

    model_id: str
    down: tuple[Sequence[float], ...] = field(repr=False)
    up: tuple[Sequence[float], ...] = field(repr=False)
    requests: int
    before: float
    after: float

    @property
    def dimensions(self) -> int:
        """The length of the vectors that it maps."""
        return len(self.down[0])

    def __str__(self) -> str:
        return f"{self.requests} requests, ndcg@10 {self.before:.3f} → {self.after:.3f}"

    def mapped(self, vector: Sequence[float]) -> Sequence[float]:
        """Map a query's vector."""
        if sys.modules.get("numpy") is not None:
            import numpy as np

            values = np.asarray(vector, "f8")
            mapped: list[float] = (
                values + (np.asarray(self.down) @ values) @ np.asarray(self.up)
            ).tolist()
            return mapped
        # For a single query, this is faster than importing numpy.
        shares = [sum(map(mul, row, vector)) for row in self.down]
        columns = zip(*self.up, strict=True)
        return [
            value + sum(map(mul, shares, column))
            for value, column in zip(vector, columns, strict=True)
        ]

    def as_bytes(self) -> bytes:
        """Return the content for the file."""
        content = {
            "format": _FORMAT,
            "model": self.model_id,
            "dimensions": self.dimensions,
            "requests": self.requests,
            "before": self.before,
            "after": self.after,
            "down": _packed(self.down),
            "up": _packed(self.up),
        }
        return json.dumps(content, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, content: bytes) -> Tuning:
        """Parse the content of a file.

        Raises:
            ValueError: The file was not written by `pytools-hybrid tune`.
        """
        try:
            fields: Any = json.loads(content)
            if fields["format"] != _FORMAT:
                raise ValueError("another format")
            return cls(
                model_id=str(fields["model"]),
                down=_unpacked(fields["down"], fields["dimensions"]),
                up=_unpacked(fields["up"], fields["dimensions"]),
                requests=int(fields["requests"]),
                before=float(fields["before"]),
                after=float(fields["after"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise ValueError("it was not written by pytools-hybrid tune") from error


class TuningFile:
    """The file of a tuning, which may appear and disappear; read again whenever it changes."""

    def __init__(self, path: Path | None) -> None:
        self.path: Path | None = path
        self._read: tuple[object, Tuning | None, str] = None, None, ""
        self._lock = Lock()

    def current(self) -> tuple[Tuning | None, str]:
        """Return the tuning in the file now, or None; and why an existing file cannot be used."""
        if self.path is None:
            return None, ""
        try:
            state = os.stat(self.path)  # noqa: PTH116 - it is looked at in every search
        except OSError:
            return None, ""
        stamp = state.st_mtime_ns, state.st_size, state.st_ino
        with self._lock:
            if self._read[0] != stamp:
                self._read = (stamp, *_read(self.path))
            return self._read[1:]


def write_tuning(path: Path, tuning: Tuning) -> None:
    """Replace the tuning file at a path in one step."""
    from pytools_hybrid.files import replace_file

    try:
        replace_file(path, tuning.as_bytes())
    except OSError as error:
        raise PytoolsError(f"{path}: {refusal(error)}") from error


def remove_tuning(path: Path) -> bool:
    """Remove a tuning file; return whether there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise PytoolsError(f"{path}: {refusal(error)}") from error
    return True


def _read(path: Path) -> tuple[Tuning | None, str]:
    try:
        return Tuning.parse(read_regular_file(path, limit=_MOST_BYTES)), ""
    except OSError as error:
        return None, f"it cannot be read ({error.strerror or error})"
    except ValueError as error:
        return None, str(error)


def _packed(rows: Iterable[Iterable[float]]) -> str:
    values = array("f", [value for row in rows for value in row])
    return base64.b64encode(_little(values).tobytes()).decode()


def _unpacked(text: str, dimensions: int) -> tuple[array[float], ...]:
    values = array("f")
    values.frombytes(base64.b64decode(text, validate=True))
    values = _little(values)
    count, rest = divmod(len(values), dimensions)
    if rest or not 0 < count <= _MOST_FACTORS or not all(map(math.isfinite, values)):
        raise ValueError("a wrong number of values")
    return tuple(values[row * dimensions : (row + 1) * dimensions] for row in range(count))


def _little(values: array[float]) -> array[float]:
    if sys.byteorder == "big":
        values.byteswap()
    return values
