"""Requests to an embedding model: paced, tried again, halved when refused, stored as they come."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex._threads import finish_in_thread
from toolindex.errors import EmbeddingError, FailureKind, VectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolindex.protocols import Embedder, EmbeddingLimits, PendingTexts

__all__ = ["Requests", "RetryPolicy"]

Batch = list[tuple[str, str]]

# A wrong key or setting refuses every text. So refusals are believed when the model takes this
# one, or has just taken another: so many of them, one after the other.
_PLAIN_TEXT = "Read a file."
_BELIEVED = 8
# The limits estimate tokens: a text that they let through may still be too long for the model,
# such as one of hexadecimal digits. One below this, in characters, is not refused for its length.
_LONG_TEXT = 2_000
# A wrong count of vectors is paid for, and is hardly a mishap when it comes twice.
_MISCOUNTS = 2


class _Stopped(Exception):  # noqa: N818 - not an error: another request has failed
    """No further request is to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How a request that failed for the moment is made again.

    The pause before the n-th retry is chosen at random between 0 and `pause` × 2ⁿ⁻¹ ("full
    jitter"), so that clients which failed together do not come back together. What a
    provider asks for in seconds is granted, if patience allows.

    Attributes:
        tries: How often a request is made at most.
        pause: The longest first pause, in seconds.
        patience: How long the pauses of a request may be together, in seconds.
    """

    tries: int = 4
    pause: float = 1.0
    patience: float = 30.0

    def pause_after(self, tries: int, retry_after: float | None) -> float:
        """Give the seconds to wait after a number of tries."""
        longest = self.pause * 2.0 ** (tries - 1)
        return max(random.uniform(0, longest), retry_after or 0.0)  # noqa: S311 - no secret


class Requests:
    """Embeds texts and stores their vectors, as many requests at once as a model allows.

    Args:
        store: Where vectors go to.
        embedder: The model.
        limits: What the model takes.
        retry: How a request that failed is made again.

    Attributes:
        embedded: How many vectors have been stored.
        refused: The reasons, by hash, why texts got none; they are stored too.
    """

    def __init__(
        self,
        store: PendingTexts,
        embedder: Embedder,
        *,
        limits: EmbeddingLimits,
        retry: RetryPolicy,
    ) -> None:
        self.embedded = 0
        self.refused: dict[str, str] = {}
        self._store = store
        self._embedder = embedder
        self._limits = limits
        self._retry = retry
        self._believed = 0
        self._trying_plain_text = asyncio.Lock()
        self._dimensions: int | None = None
        self._waiting: deque[Batch] = deque()
        self._next_start = 0.0
        self._stop = asyncio.Event()
        self._failure: Exception | None = None
        self._progress: Callable[[int, int], object] | None = None
        self._total = 0

    def report_to(self, progress: Callable[[int, int], object], total: int) -> None:
        """Call a function with the texts embedded, and all that are to be, as they come."""
        self._progress, self._total = progress, total
        progress(0, total)

    async def embed(self, texts: Mapping[str, str]) -> None:
        """Embed texts and store their vectors, or the reasons why the model refused them.

        Raises:
            EmbeddingError: The model gives no vectors, whatever the text.
            VectorError: It gives vectors of another length than before.
            ToolIndexError: The vectors cannot be stored.
        """
        hashes = iter(texts)
        self._waiting.extend(
            [(next(hashes), text) for text in request]
            for request in self._limits.requests(texts.values())
        )
        workers = min(self._limits.concurrency, len(self._waiting))
        # Exceptions are collected so that no worker is left running, whichever way this ends.
        for outcome in await asyncio.gather(
            *(self._work() for _ in range(workers)), return_exceptions=True
        ):
            if isinstance(outcome, BaseException):
                raise self._failure or outcome

    async def _work(self) -> None:
        with suppress(_Stopped):
            while self._waiting:
                try:
                    await self._embed(self._waiting.popleft())
                except Exception as error:
                    if not self._stop.is_set():
                        self._failure = error
                        self._stop.set()
                    raise

    async def _embed(self, batch: Batch) -> None:
        try:
            vectors = await self._answered([text for _, text in batch])
        except EmbeddingError as error:
            if error.kind is not FailureKind.REFUSED:
                raise
            text_hash, text = batch[0]
            if len(batch) > 1:
                middle = len(batch) // 2
                self._waiting.extendleft((batch[middle:], batch[:middle]))
            elif len(text) > _LONG_TEXT:
                self._waiting.appendleft([(text_hash, text[: len(text) // 2])])
            else:
                await self._refuse({text_hash: error.reason})
            return
        good, bad = self._sorted_out(batch, vectors)
        if good:
            await finish_in_thread(self._store.put_vectors, self._embedder.model_id, good)
            self.embedded += len(good)
            self._believed = _BELIEVED
            self._total = max(self._total, self.embedded)
            if self._progress is not None:
                self._progress(self.embedded, self._total)
        if bad:
            await self._refuse(bad)

    async def _answered(self, texts: list[str]) -> list[list[float]]:
        """Make a request until it is answered; the pauses are cut short when another fails."""
        tries, miscounts, waited = 0, 0, 0.0
        while True:
            await self._turn()
            tries += 1
            try:
                vectors = await self._embedder.embed_documents(texts)
                if len(vectors) != len(texts):
                    miscounts += 1
                    final = miscounts == _MISCOUNTS
                    raise EmbeddingError(
                        self._embedder.model_id,
                        f"gave {len(vectors)} vectors for {len(texts)} texts",
                        kind=FailureKind.UNAVAILABLE if final else FailureKind.TRANSIENT,
                    )
            except EmbeddingError as error:
                pause = self._retry.pause_after(tries, error.retry_after)
                waited += pause
                if (
                    error.kind is not FailureKind.TRANSIENT
                    or tries >= self._retry.tries
                    or waited > self._retry.patience
                ):
                    raise
                if error.retry_after is not None:
                    self._hold(pause)
            else:
                return vectors
            await self._sleep(pause)

    async def _turn(self) -> None:
        """Wait until the rate allows one more request."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_start)
        per_minute = self._limits.requests_per_minute
        self._next_start = start + (60.0 / per_minute if per_minute else 0.0)
        await self._sleep(start - now)

    def _hold(self, seconds: float) -> None:
        """Let nobody make a request: who has sent too many is not to send others meanwhile."""
        now = asyncio.get_running_loop().time()
        self._next_start = max(self._next_start, now + seconds)

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            if seconds > 0:
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
        if self._stop.is_set():
            raise _Stopped

    def _sorted_out(
        self, batch: Batch, vectors: Sequence[Sequence[float]]
    ) -> tuple[dict[str, Sequence[float]], dict[str, str]]:
        """Tell the vectors that can be stored, by hash, from what is wrong with the others."""
        known = self._dimensions or self._embedder.dimensions
        lengths = Counter(map(len, vectors))
        usual = lengths.most_common(1)[0][0]
        if known is not None and known not in lengths:
            raise VectorError(
                self._embedder.model_id,
                f"gave vectors of {usual} dimensions where {known} were expected",
            )
        dimensions = known or usual
        good: dict[str, Sequence[float]] = {}
        bad: dict[str, str] = {}
        for (text_hash, _), vector in zip(batch, vectors, strict=True):
            norm = math.hypot(*vector)
            if len(vector) != dimensions:
                bad[text_hash] = (
                    f"gave a vector of {len(vector)} dimensions where {dimensions} were expected"
                )
            elif not math.isfinite(norm):
                bad[text_hash] = "gave a vector with a value that is not finite"
            elif norm == 0:
                bad[text_hash] = "gave a vector of zeros, which has no direction"
            else:
                good[text_hash] = vector
        if good:
            self._dimensions = dimensions
        return good, bad

    async def _refuse(self, reasons: Mapping[str, str]) -> None:
        model = self._embedder.model_id
        await self._believe(next(iter(reasons.values())))
        named = {key: str(EmbeddingError(model, reason)) for key, reason in reasons.items()}
        await finish_in_thread(self._store.refuse, model, named)
        self.refused |= named

    async def _believe(self, reason: str) -> None:
        """Make sure that a refusal is due to the text.

        Raises:
            EmbeddingError: The model takes no text.
        """
        async with self._trying_plain_text:
            if not self._believed:
                if not await self._takes_plain_text():
                    raise EmbeddingError(
                        self._embedder.model_id,
                        f"takes no text ({reason}); check the model's name and its settings",
                        kind=FailureKind.UNAVAILABLE,
                    )
                self._believed = _BELIEVED
            self._believed -= 1

    async def _takes_plain_text(self) -> bool:
        try:
            vectors = await self._answered([_PLAIN_TEXT])
        except EmbeddingError as error:
            if error.kind is not FailureKind.REFUSED:
                raise
            return False
        good, _ = self._sorted_out([("", _PLAIN_TEXT)], vectors)
        return bool(good)
