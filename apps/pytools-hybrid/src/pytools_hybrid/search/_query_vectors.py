"""From a request to an answer, with the vectors of the model that can find the most.

A query's vector comes from memory, from the index or from the model, which may be slow or down.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from toolembed import Backoff, CircuitBreaker, EmbeddingError, FailureKind, StaticEmbedder, stand_in
from toolindex import ToolIndexError, VectorError, check_dimensions
from toolrank import query_terms, split_request

from pytools_hybrid.index import sooner_than
from pytools_hybrid.observing import MODEL_REQUESTS, Observed
from pytools_hybrid.search._engine import corrected
from pytools_hybrid.search._query_encoder import QueryEncoder
from pytools_hybrid.search._types import QueryVector, SearchMode
from pytools_hybrid.settings import REMEDIES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolembed import Embedder
    from toolindex import ToolStore

    from pytools_hybrid.index import Recorder
    from pytools_hybrid.search._engine import Searcher
    from pytools_hybrid.search._types import SearchRequest, SearchResponse

T = TypeVar("T")

_SECONDS = 10.0
# A search does not wait long for a model that has just failed.
_AGAIN_SECONDS = 1.0
_LATEST_SECONDS = 60.0
_REMEMBERED = 1024
# Together with a request's time limit, a recovered model is noticed within 20 seconds.
_BACKOFF = Backoff(first=1.0, longest=8.0)
_LEFT_ALONE = "not called for a while"
_AT_ONCE = 2
# A model with vectors of fewer tools finds less than the offline one (benchmarks/RESULTS.md).
_ENOUGH = 0.9


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
        self._breaker = CircuitBreaker(_BACKOFF)
        self._failure = ""

    async def vector(self, text: str, parts: Sequence[str] = ()) -> tuple[QueryVector | None, str]:
        """Return the vectors of a query and its parts, or None and the reason.

        If the model fails only for a part, that part has no vector.
        """
        if why := self._too_long(self.embedder.dimensions):
            return None, why
        values, *others = await asyncio.gather(*map(self._attempt, (text, *parts)))
        # Only now, so that the failure of one part does not skip the others.
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
        """Return why vectors are too long for the index, if they are."""
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
        with Observed(MODEL_REQUESTS, "query", self.embedder.model_id) as seen:
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


class Answering:
    """Answers requests, with another model's vectors until those of the wanted one are ready."""

    def __init__(
        self, store: ToolStore, searcher: Searcher, recorder: Recorder, embedder: Embedder | None
    ) -> None:
        self._store = store
        self.searcher = searcher
        self._recorder = recorder
        self._embedder = embedder
        # Two searches at a time finish sooner than many at once: they share one interpreter, and
        # while one waits for the database, the other computes.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._sooner = sooner_than(embedder)
        self._queries: dict[str, QueryEmbedder] = {}
        self._encoders: dict[str, QueryEncoder] = {}
        self._stand_ins: dict[str, Embedder | None] = {}

    async def answer(self, request: SearchRequest, failure: str) -> SearchResponse:
        """Answer a request from the current state of the index."""
        wanted = self._embedder
        if wanted is None:
            is_missed = request.mode is SearchMode.VECTOR
            why = "vectors are turned off: embedding model 'none'" if is_missed else ""
            return await self._looked_up(request, None, why)
        if not self.searcher.uses_vectors(request.mode):
            return await self._looked_up(request, None, "")
        if self._sooner is not None:
            return await self._answered_at_once(request, wanted, self._sooner, failure)
        vector, why = await self._vector(request, wanted)
        response = await self._looked_up(request, vector, why or failure)
        if response.misfit and isinstance(vector, QueryVector):
            # Not cached: the model may return the right one the next time.
            for text in (vector.text, *(part for part, _ in vector.parts)):
                self._queries[wanted.model_id].forget(text)
        for model_id in _instead(request, response):
            other = await self._stand_in(model_id, wanted.model_id)
            if other is None:
                continue
            vector, _ = await self._vector(request, other)
            if vector is not None:
                why = response.shortfall or f"those of {wanted.model_id} are not ready"
                instead = await self._looked_up(request, vector, why)
                if instead.tools or not response.tools:
                    return replace(instead, unembedded=response.unembedded, misfit=response.misfit)
        return response

    async def _answered_at_once(
        self, request: SearchRequest, wanted: Embedder, sooner: StaticEmbedder, failure: str
    ) -> SearchResponse:
        """Answer with the wanted model if all tools have its vectors, else with the faster one."""
        spelled = await asyncio.to_thread(self._spelled, request.text, wanted, sooner.knows)
        if spelled is not None:
            vector, failure = await self._vector(request, wanted, spelled)
            if not failure:
                response = await self._looked_up(request, vector, "")
                # A tool may have changed in the meantime.
                if response.coverage.vectors >= response.coverage.tools:
                    return response
        vector, why = await self._vector(request, sooner)
        # Users only need to know if the wanted model fails, not that it is unfinished.
        model_id = wanted.model_id if failure else sooner.model_id
        return await self._looked_up(request, vector, why or failure, model_id=model_id)

    def _spelled(self, text: str, wanted: Embedder, known: Callable[[str], bool]) -> str | None:
        """Return a request in the tools' spelling, or None if not all tools have vectors.

        Our models know only the pieces of a misspelt word; a provider's copes with it.
        """
        with self._store.reading() as reader:
            coverage = reader.coverage(wanted.model_id)
            if coverage.vectors < coverage.tools:
                return None
            return corrected(reader, text, known=known)

    async def _stand_in(self, model_id: str, wanted: str) -> Embedder | None:
        if model_id not in self._stand_ins:
            # In a thread: it may import the providers' libraries.
            self._stand_ins[model_id] = await asyncio.to_thread(
                stand_in, model_id, wanted, remedies=REMEDIES
            )
        return self._stand_ins[model_id]

    async def _looked_up(
        self,
        request: SearchRequest,
        vector: QueryVector | QueryEncoder | None,
        why: str,
        *,
        model_id: str | None = None,
    ) -> SearchResponse:
        if model_id is None and self._embedder is not None:
            model_id = self._embedder.model_id
        async with self._turns:
            return await asyncio.to_thread(
                self.searcher.answer,
                request,
                model_id=model_id,
                query=vector,
                why=why,
            )

    async def _vector(
        self, request: SearchRequest, embedder: Embedder, spelled: str | None = None
    ) -> tuple[QueryVector | QueryEncoder | None, str]:
        if not query_terms(request.text, stop_words=()):
            return None, ""
        if isinstance(embedder, StaticEmbedder):
            # It takes less time than another thread, so it is asked where the index is read.
            if embedder.model_id not in self._encoders:
                self._encoders[embedder.model_id] = QueryEncoder(embedder)
            return self._encoders[embedder.model_id], ""
        queries = self._queries.get(embedder.model_id)
        if queries is None:
            queries = QueryEmbedder(embedder, self._store, self._recorder)
            self._queries[embedder.model_id] = queries
        text = spelled or request.text
        return await queries.vector(text, split_request(text))


def _instead(request: SearchRequest, response: SearchResponse) -> tuple[str, ...]:
    """Return the models that can find more than the one that answered, best first.

    The offline model is one of them without any stored vectors: it embeds the tools that fit by
    their words before it answers. In modes without words, half of the wanted model's vectors are
    better.
    """
    coverage = response.coverage
    is_enough = request.mode is SearchMode.VECTOR or coverage.vectors >= _ENOUGH * coverage.tools
    if response.model and is_enough:
        return response.fuller_models
    return tuple(dict.fromkeys((*response.fuller_models, StaticEmbedder().model_id)))
