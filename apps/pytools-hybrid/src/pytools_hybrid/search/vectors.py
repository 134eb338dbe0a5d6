"""The vectors of queries: from memory, the index or a model, which may be slow or down."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import sys
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from toolembed import Backoff, EmbeddingError, FailureKind
from toolimport.system import read_regular_file
from toolindex import ToolIndex, ToolIndexError, VectorError
from toolrank import Query

from pytools_hybrid.errors import PytoolsError, refusal
from pytools_hybrid.telemetry import MODEL_REQUESTS, observe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from toolembed import Embedder, StaticEmbedder
    from toolindex import ToolStore

    from pytools_hybrid.index import Recorder

    Encode = Callable[[Sequence[str]], Sequence[Sequence[float]]]

T = TypeVar("T")

_SECONDS = 10.0
# A search does not wait long for a model that has just failed.
_AGAIN_SECONDS = 1.0
_LATEST_SECONDS = 60.0
_REMEMBERED = 1024
# Together with a request's time limit, a recovered model is noticed within 20 seconds.
_BACKOFF = Backoff(first=1.0, longest=8.0)
_LEFT_ALONE = "not called for a while"
_FORMAT = "pytools-hybrid tuning 1"
_MOST_BYTES = 64 << 20
_MOST_FACTORS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVector:
    """The vectors of a query.

    Attributes:
        model_id: The model.
        values: One float per dimension.
        text: What was embedded: the request, with misspelt words corrected.
        subqueries: Those of a compound request, each with its vector; None if the model returned
            none, so that it is searched by words.
        tuning: The tuning that mapped it, or None.
    """

    model_id: str
    values: Sequence[float] = field(repr=False)
    text: str = ""
    subqueries: tuple[tuple[str, Sequence[float] | None], ...] = field(default=(), repr=False)
    tuning: Tuning | None = None

    def with_usable_subqueries(self) -> QueryVector:
        """Drop vectors of subqueries whose length differs from that of the request's vector."""
        length = len(self.values)
        subqueries = tuple(
            (text, values if values is not None and len(values) == length else None)
            for text, values in self.subqueries
        )
        return replace(self, subqueries=subqueries)

    def tuned(self, file: TuningFile) -> tuple[QueryVector, str]:
        """Return the vector mapped by a tuning, and a note if its file was ignored."""
        tuning, problem = file.current()
        if tuning is None:
            return self, problem and f"{file.path} is ignored: {problem}"
        if (tuning.model_id, tuning.dimensions) != (self.model_id, len(self.values)):
            return self, (
                f"{file.path} is ignored: it was tuned for {tuning.model_id}, searches use "
                f"{self.model_id}; run `pytools-hybrid tune` again, or remove it with --undo"
            )
        subqueries = tuple(
            (text, values and tuning.mapped(values)) for text, values in self.subqueries
        )
        mapped = tuning.mapped(self.values)
        return replace(self, values=mapped, subqueries=subqueries, tuning=tuning), ""


class QueryEncoder:
    """Makes the vectors of queries and their subqueries with the offline model, and keeps them.

    It works in the thread that searches the index: the model takes less time than handing work to
    another thread.
    """

    def __init__(self, embedder: StaticEmbedder) -> None:
        self.knows: Callable[[str], bool] = embedder.knows
        self._embedder = embedder
        self.vector: Callable[[str], QueryVector] = lru_cache(maxsize=_REMEMBERED)(self._vector)

    @property
    def documents(self) -> Encode | None:
        """Embeds tools at once; None if something would have to be loaded first."""
        return self._embedder.encode_documents if self._embedder.is_instant else None

    def _vector(self, text: str) -> QueryVector:
        model_id, query = self._embedder.model_id, Query.of(text)
        with observe(MODEL_REQUESTS, "query", model_id) as seen:
            values, *others = [
                array("f", values) for values in self._embedder.encode_queries(query.texts)
            ]
            if not any(values):
                reason = "returned a zero or non-finite vector"
                raise EmbeddingError(model_id, reason)
            seen.outcome = "answered"
        return QueryVector(
            model_id=model_id,
            values=values,
            text=text,
            subqueries=tuple(
                (each.text, its if any(its) else None)
                for each, its in zip(query.subqueries, others, strict=True)
            ),
        )


@runtime_checkable
class _Loads(Protocol):
    """An embedder that has to be loaded before use."""

    async def load(self) -> None: ...


class QueryEmbedder:
    """Returns the vectors that one model has for queries.

    A repeated query costs nothing: vectors are cached, those of expensive models also on disk.
    After a failure, the model is not called for a while, so that not every search waits for it.
    """

    def __init__(self, embedder: Embedder, store: ToolStore, recorder: Recorder) -> None:
        self.embedder = embedder
        self._store = store
        self._recorder = recorder
        self._remembered: OrderedDict[str, Sequence[float]] = OrderedDict()
        self._useless: set[str] = set()
        self._asking: dict[str, asyncio.Task[Sequence[float]]] = {}
        self._breaker = _BACKOFF.breaker()
        self._failure = ""

    async def vector(self, query: Query) -> tuple[QueryVector | None, str]:
        """Return the vectors of a query and its subqueries, or None and the reason.

        If the model fails only for a subquery, that has no vector.
        """
        if why := self._too_long(self.embedder.dimensions):
            return None, why
        values, *others = await asyncio.gather(*map(self._attempt, query.texts))
        # Failures are handled after all subqueries, so that one does not skip the others.
        for failure in (values, *others):
            if isinstance(failure, EmbeddingError) and failure.reason != _LEFT_ALONE:
                self._failure = str(failure)
                self._breaker.failed(failure.retry_after)
        if isinstance(values, EmbeddingError):
            return None, self._told(values)
        if why := self._too_long(len(values)):
            return None, why
        vector = QueryVector(
            model_id=self.embedder.model_id,
            values=values,
            text=query.text,
            subqueries=tuple(
                (each.text, None if isinstance(other, EmbeddingError) else other)
                for each, other in zip(query.subqueries, others, strict=True)
            ),
        )
        return vector, ""

    def _too_long(self, dimensions: int | None) -> str:
        """Return why vectors are too long for the index, if they are."""
        try:
            ToolIndex.check_dimensions(self.embedder.model_id, dimensions)
        except VectorError as error:
            return str(error)
        return ""

    async def _attempt(self, text: str) -> Sequence[float] | EmbeddingError:
        try:
            return await self._vector(text)
        except EmbeddingError as error:
            return error

    async def _vector(self, text: str) -> Sequence[float]:
        if text not in self._remembered and text not in self._useless:
            kept = await self._kept(text)
            if kept is not None:
                self._remember(text, kept)
                self._recorder.query_used(self.embedder.model_id, text)
        # Another search may have cached it during the read from disk.
        values = self._remembered.get(text)
        if values is not None and self.embedder.dimensions in {None, len(values)}:
            self._remembered.move_to_end(text)
            return values
        if self._breaker.remaining:
            raise EmbeddingError(self.embedder.model_id, _LEFT_ALONE)
        return await self._asked(text)

    def forget(self, text: str) -> None:
        """Drop a cached vector that turned out to be useless."""
        self._remembered.pop(text, None)
        self._useless.add(text)
        self._recorder.forget_query(self.embedder.model_id, text)

    async def _kept(self, text: str) -> Sequence[float] | None:
        try:
            return await asyncio.to_thread(
                self._store.query_vectors.get,
                self.embedder.model_id,
                text,
                dimensions=self.embedder.dimensions,
            )
        except ToolIndexError:
            # The search itself will report what is wrong with the database.
            return None

    async def _asked(self, text: str) -> Sequence[float]:
        """Call the model once for all callers; if one gives up, the others go on waiting."""
        seconds = _AGAIN_SECONDS if self._breaker.failures else _SECONDS
        if isinstance(self.embedder, _Loads):
            await self._within(seconds, self.embedder.load(), "is still being loaded after")
        task = self._asking.get(text)
        if task is None:
            task = self._asking[text] = asyncio.create_task(self._embed(text))
            task.add_done_callback(lambda done: self._asked_for(text, done))
        return await self._within(seconds, asyncio.shield(task), "no answer within")

    async def _within(self, seconds: float, work: Awaitable[T], failure: str) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            reason = f"{failure} {seconds:g} s"
            raise EmbeddingError(self.embedder.model_id, reason) from error

    def _asked_for(self, text: str, task: asyncio.Task[Sequence[float]]) -> None:
        del self._asking[text]
        if not task.cancelled():
            # Retrieved so that asyncio does not report the error when all callers have given up.
            task.exception()

    async def _embed(self, text: str) -> Sequence[float]:
        with observe(MODEL_REQUESTS, "query", self.embedder.model_id) as seen:
            async with asyncio.timeout(_LATEST_SECONDS):
                try:
                    values = await self._values(text)
                except EmbeddingError as error:
                    if error.kind is not FailureKind.TRANSIENT or error.retry_after is not None:
                        raise
                    # Most brief failures are over at the next attempt.
                    values = await self._values(text)
            seen.outcome = "answered"
        self._breaker.succeeded()
        self._useless.discard(text)
        self._remember(text, values)
        self._recorder.query_vector(self.embedder.model_id, text, values)
        return values

    async def _values(self, text: str) -> Sequence[float]:
        values = array("f", await self.embedder.embed_query(text))
        if not any(values) or not all(map(math.isfinite, values)):
            reason = "returned a zero or non-finite vector"
            raise EmbeddingError(self.embedder.model_id, reason)
        return values

    def _remember(self, text: str, values: Sequence[float]) -> None:
        self._remembered[text] = values
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)

    def _told(self, error: EmbeddingError) -> str:
        """Return why there is no vector, and when the model is called again."""
        if error.reason != _LEFT_ALONE:
            return str(error)
        return f"{self._failure}; retried in {self._breaker.remaining:.0f} s"


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
