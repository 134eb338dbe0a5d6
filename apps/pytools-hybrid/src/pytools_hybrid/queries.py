"""A query's vector: remembered, kept, or asked of the model, which may be slow or gone."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING

from toolindex import EmbeddingError, ToolIndexError

from pytools_hybrid.embedding import StaticEmbedder
from pytools_hybrid.search import QueryVector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolindex import Embedder, ToolStore

    from pytools_hybrid.recorder import Recorder

__all__ = ["QueryEmbedder"]

_SECONDS = 10.0
_REMEMBERED = 1024
_PAUSES = (1.0, 5.0, 30.0, 120.0)
_PAUSED = "left alone for a while"


class QueryEmbedder:
    """Gives the vectors that one model has for queries.

    A question asked again costs nothing: vectors are remembered, and those of models that
    cost something are kept on disk. A model that fails is left alone for a while, so that
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
        self._failures = 0
        self._failure = ""
        self._paused_until = 0.0

    async def vector(self, text: str, parts: Sequence[str] = ()) -> tuple[QueryVector | None, str]:
        """Give the vectors of a query and of its parts, or None and the reason why there is none.

        The model may fail for a part alone: that has no vector then.
        """
        values, *others = await asyncio.gather(*map(self._attempt, (text, *parts)))
        if isinstance(values, EmbeddingError):
            return None, self._failed(values)
        failed = next((other for other in others if isinstance(other, EmbeddingError)), None)
        if failed is None:
            self._failures = 0
        else:
            self._failed(failed)
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
        if asyncio.get_running_loop().time() < self._paused_until:
            raise EmbeddingError(self.embedder.model_id, _PAUSED)
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
        task = self._asking.get(text)
        if task is None:
            task = self._asking[text] = asyncio.create_task(self._embed(text))
            task.add_done_callback(lambda done: self._asked_for(text, done))
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.shield(task)
        except TimeoutError as error:
            reason = f"no answer within {_SECONDS:.0f} s"
            raise EmbeddingError(self.embedder.model_id, reason) from error

    def _asked_for(self, text: str, task: asyncio.Task[Sequence[float]]) -> None:
        del self._asking[text]
        if not task.cancelled():
            # Looked at, for whoever asked may have given up: it is no stray error then.
            task.exception()

    async def _embed(self, text: str) -> Sequence[float]:
        values = array("f", await self.embedder.embed_query(text))
        if not any(values) or not all(map(math.isfinite, values)):
            reason = "gave the query a vector of zeros, or one that is not finite"
            raise EmbeddingError(self.embedder.model_id, reason)
        self._useless.discard(text)
        self._remember(text, values)
        if self._is_kept:
            self._recorder.query_vector(self.embedder.model_id, text, values)
        return values

    def _remember(self, text: str, values: Sequence[float]) -> None:
        self._remembered[text] = values
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)

    def _failed(self, error: EmbeddingError) -> str:
        """Say what failed, and leave the model alone for a while."""
        now = asyncio.get_running_loop().time()
        if error.reason == _PAUSED:
            return f"{self._failure}; tried again in {self._paused_until - now:.0f} s"
        self._failure = str(error)
        self._paused_until = now + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        return self._failure
