"""The vectors of queries: from memory, the index or a model, which may be slow or down."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from toolembed import Backoff, EmbeddingError, FailureKind
from toolindex import ToolIndex, ToolIndexError, VectorError
from toolrank import Query

from pytools_hybrid.telemetry import MODEL_REQUESTS, observe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolembed import Embedder, StaticEmbedder
    from toolindex import ToolStore

    from pytools_hybrid.index import Recorder
    from pytools_hybrid.search._tuning import Tuning, TuningFile

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
                reason = "gave the query a vector of zeros"
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
            reason = "gave the query a vector of zeros, or one that is not finite"
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
