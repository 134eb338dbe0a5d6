"""A query's vector: remembered, kept, or asked of the model, which may be slow or gone."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from toolembed import Backoff, CircuitBreaker, EmbeddingError, FailureKind, StaticEmbedder
from toolindex import ToolIndexError, VectorError, check_dimensions

from pytools_hybrid.search._types import QueryVector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from toolembed import Embedder
    from toolindex import ToolStore

    from pytools_hybrid.index import Recorder

T = TypeVar("T")

_SECONDS = 10.0
# A search does not wait long for a model that has just failed; its answer may come later.
_AGAIN_SECONDS = 1.0
_LATEST_SECONDS = 60.0
_REMEMBERED = 1024
# Together with the time of a request, a model that recovered is noticed within 20 seconds.
_BACKOFF = Backoff(first=1.0, longest=8.0)
_LEFT_ALONE = "not called for a while"


@runtime_checkable
class _Loads(Protocol):
    """An embedder that has to be loaded before its model can be asked."""

    async def load(self) -> None: ...


class QueryEmbedder:
    """Gives the vectors that one model has for queries.

    A question asked again costs nothing: vectors are remembered, and those of models that
    cost something are kept on disk. A model that fails is not called for a while, so that
    searches do not wait for it one after the other.

    Args:
        embedder: The model.
        store: Where vectors are kept.
        recorder: What writes them there.
    """

    def __init__(self, embedder: Embedder, store: ToolStore, recorder: Recorder) -> None:
        self.embedder = embedder
        self._store = store
        self._recorder = recorder
        # To look on the disk would take longer than to compute these.
        self._is_kept = not isinstance(embedder, StaticEmbedder)
        self._remembered: OrderedDict[str, Sequence[float]] = OrderedDict()
        self._useless: set[str] = set()
        self._asking: dict[str, asyncio.Task[Sequence[float]]] = {}
        self._breaker = CircuitBreaker(_BACKOFF)
        self._failure = ""

    async def vector(self, text: str, parts: Sequence[str] = ()) -> tuple[QueryVector | None, str]:
        """Return the vectors of a query and of its parts, or None and the reason why there is none.

        The model may fail for a part alone: that has no vector then.
        """
        if why := self._too_long(self.embedder.dimensions):
            return None, why
        values, *others = await asyncio.gather(*map(self._attempt, (text, *parts)))
        # Noted only now: the failure of a part does not keep the others from being asked.
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
            text=text,
            parts=tuple(
                (part, None if isinstance(other, EmbeddingError) else other)
                for part, other in zip(parts, others, strict=True)
            ),
        )
        return vector, ""

    def _too_long(self, dimensions: int | None) -> str:
        """Return why vectors of a length are of no use, if they are too long for the index."""
        try:
            check_dimensions(self.embedder.model_id, dimensions)
        except VectorError as error:
            return str(error)
        return ""

    async def _attempt(self, text: str) -> Sequence[float] | EmbeddingError:
        try:
            return await self._vector(text)
        except EmbeddingError as error:
            return error

    async def _vector(self, text: str) -> Sequence[float]:
        if text not in self._remembered and self._is_kept and text not in self._useless:
            kept = await self._kept(text)
            if kept is not None:
                self._remember(text, kept)
                self._recorder.query_used(self.embedder.model_id, text)
        # Asked now, for another may have got it while this one looked on the disk.
        values = self._remembered.get(text)
        if values is not None and self.embedder.dimensions in {None, len(values)}:
            self._remembered.move_to_end(text)
            return values
        if self._breaker.remaining:
            raise EmbeddingError(self.embedder.model_id, _LEFT_ALONE)
        return await self._asked(text)

    def forget(self, text: str) -> None:
        """Do not give this vector again: it has turned out to be of no use."""
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
            # The search itself will say what is wrong with the database.
            return None

    async def _asked(self, text: str) -> Sequence[float]:
        """Ask the model once, however many ask for the same; who gives up stops nobody else."""
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
            # Looked at, for whoever asked may have given up: it is no stray error then.
            task.exception()

    async def _embed(self, text: str) -> Sequence[float]:
        async with asyncio.timeout(_LATEST_SECONDS):
            try:
                values = await self._values(text)
            except EmbeddingError as error:
                if error.kind is not FailureKind.TRANSIENT or error.retry_after is not None:
                    raise
                # Most momentary failures are gone at the next try.
                values = await self._values(text)
        self._breaker.succeeded()
        self._useless.discard(text)
        self._remember(text, values)
        if self._is_kept:
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
        """Return why there is no vector, and when the model is asked again."""
        if error.reason != _LEFT_ALONE:
            return str(error)
        return f"{self._failure}; retried in {self._breaker.remaining:.0f} s"
