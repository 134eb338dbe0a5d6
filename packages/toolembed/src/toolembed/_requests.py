"""Requests to an embedding model: paced, retried, split when refused, stored at once."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import Counter, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from toolembed._threads import finish_in_thread
from toolembed.errors import DimensionsError, EmbeddingError, FailureKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from toolembed._backoff import Backoff
    from toolembed.protocols import Embedder, EmbeddingLimits, PendingTexts

Batch = list[tuple[str, str]]

# With a wrong key or setting every text is refused, and a failing provider returns nonsense for
# all. So a refusal is only believed if the model accepts this text, or has just accepted another
# one, and at most this many refusals in a row are believed.
_PLAIN_TEXT = "Read a file."
_BELIEVED = 8
# The limits estimate tokens: a text within them may still be too long for the model, such as one of
# hexadecimal digits. A text shorter than this, in characters, is not refused for its length.
_LONG_TEXT = 2_000
# A wrong number of vectors has to be paid for, and twice in a row is hardly an accident.
_MISCOUNTS = 2
_FEWER = 4


class _Stopped(Exception):  # noqa: N818 - not an error: another request has failed
    """No more requests should be made."""


class Requests:
    """Embeds texts and stores their vectors, with as many concurrent requests as a model allows.

    The arguments are those of `embed_pending`.

    Attributes:
        embedded: How many vectors have been stored.
        refused: By hash, the reasons why texts got no vector; they are stored too.
    """

    def __init__(
        self,
        store: PendingTexts,
        embedder: Embedder,
        *,
        limits: EmbeddingLimits,
        retry: Backoff,
        first: Set[str] = frozenset(),
    ) -> None:
        self.embedded = 0
        self.refused: dict[str, str] = {}
        self._store = store
        self._embedder = embedder
        self._limits = limits
        self._retry = retry
        self._first = first
        self._known: set[str] = set()
        self._brought: set[str] = set()
        self._believed = 0
        self._trying_plain_text = asyncio.Lock()
        self._dimensions: int | None = None
        self._most_texts = limits.texts_per_request
        self._doubted: set[str] = set()
        self._waiting: deque[Batch] = deque()
        self._next_start = 0.0
        self._stop = asyncio.Event()
        self._failure: Exception | None = None
        self._progress: Callable[[int, int], object] | None = None
        self._total = 0

    def report_to(self, progress: Callable[[int, int], object], total: int) -> None:
        """Call a function with the numbers of texts embedded and to embed, as they change."""
        self._progress, self._total = progress, total
        progress(0, total)

    async def embed(self, texts: Mapping[str, str]) -> None:
        """Embed texts and store their vectors, or the reasons why the model refused them."""
        self._known |= texts.keys()
        self._waiting.extend(self._divided(texts))
        workers = min(self._limits.concurrency, len(self._waiting))
        # Exceptions are collected so that no worker is left running.
        for outcome in await asyncio.gather(
            *(self._work() for _ in range(workers)), return_exceptions=True
        ):
            if isinstance(outcome, BaseException):
                raise self._failure or outcome

    async def _work(self) -> None:
        with suppress(_Stopped):
            while True:
                try:
                    if not (batch := await self._next()):
                        return
                    await self._embed(batch)
                except Exception as error:
                    if not self._stop.is_set():
                        self._failure = error
                        self._stop.set()
                    raise

    def _divided(self, texts: Mapping[str, str]) -> list[Batch]:
        hashes = iter(texts)
        return [
            [(next(hashes), text) for text in request]
            for request in self._limits.requests(texts.values())
        ]

    async def _bring_forward(self) -> None:
        """Move the texts in `first` to the front of the queue.

        Texts that `embed` did not get are requested from the store.
        """
        # Only once each, because a refused or doubtful text is sent again alone.
        wanted = self._first - self._brought
        if not wanted:
            return
        self._brought |= wanted
        texts: dict[str, str] = {}
        if new := wanted - self._known:
            self._known |= new
            model, most = self._embedder.model_id, len(new)
            look = partial(self._store.pending, model, limit=most, among=new)
            texts.update(await finish_in_thread(look))
        others: list[Batch] = []
        for batch in self._waiting:
            texts.update(each for each in batch if each[0] in wanted)
            if rest := [each for each in batch if each[0] not in wanted]:
                others.append(rest)
        self._waiting = deque([*self._divided(texts), *others])

    async def _next(self) -> Batch:
        """Take the texts of the next request from the queue; none if it is empty."""
        await self._bring_forward()
        if not self._waiting:
            return []
        batch = self._waiting.popleft()
        if len(batch) > self._most_texts:
            self._waiting.appendleft(batch[self._most_texts :])
        return batch[: self._most_texts]

    async def _embed(self, batch: Batch) -> None:
        try:
            vectors = await self._answered([text for _, text in batch])
        except EmbeddingError as error:
            if error.kind is FailureKind.SLOW and len(batch) > 1:
                self._most_texts = max(1, len(batch) // _FEWER)
                self._waiting.appendleft(batch)
            elif error.kind is not FailureKind.REFUSED:
                raise
            elif len(batch) == 1 and len(batch[0][1]) > _LONG_TEXT:
                ((text_hash, text),) = batch
                self._waiting.appendleft([(text_hash, text[: len(text) // 2])])
            elif len(batch) == 1:
                await self._refuse(batch[0][0], error.reason)
            else:
                await self._divide(batch, error.reason)
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
            await self._ask_again(
                [it for it in batch if it[0] in bad], bad, some_were_good=bool(good)
            )

    async def _ask_again(
        self, batch: Batch, reasons: Mapping[str, str], *, some_were_good: bool
    ) -> None:
        """Retry texts with unusable vectors: another text or a glitch may have been the cause."""
        text_hash, reason = next(iter(reasons.items()))
        if len(batch) == 1 and text_hash in self._doubted and not some_were_good:
            await self._refuse(text_hash, reason)
            return
        self._doubted.update(reasons)
        if some_were_good:
            self._waiting.appendleft(batch)
        else:
            await self._divide(batch, reason)

    async def _divide(self, batch: Batch, reason: str) -> None:
        """Split a request in two, if the model accepts any text at all."""
        await self._believe(reason)
        middle = len(batch) // 2
        self._waiting.extendleft(part for part in (batch[middle:], batch[:middle]) if part)

    async def _answered(
        self, texts: list[str], check: Callable[[list[list[float]]], None] | None = None
    ) -> list[list[float]]:
        """Retry a request until it is answered; delays end early if another request fails."""
        failures, miscounts, waited = 0, 0, 0.0
        while True:
            await self._turn()
            try:
                vectors = await self._embedder.embed_documents(texts)
                if len(vectors) != len(texts):
                    miscounts += 1
                    is_final = miscounts == _MISCOUNTS
                    raise EmbeddingError(
                        self._embedder.model_id,
                        f"gave {len(vectors)} vectors for {len(texts)} texts",
                        kind=FailureKind.REFUSED if is_final else FailureKind.TRANSIENT,
                    )
                if check is not None:
                    check(vectors)
            except EmbeddingError as error:
                failures += 1
                delay = self._retry.delay(failures, error.retry_after)
                waited += delay
                if (
                    error.kind is not FailureKind.TRANSIENT
                    or failures >= self._retry.tries
                    or waited > self._retry.patience
                ):
                    raise
                if error.retry_after is not None:
                    self._hold(delay)
            else:
                return vectors
            await self._sleep(delay)

    async def _turn(self) -> None:
        """Wait until the rate allows one more request."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_start)
        per_minute = self._limits.requests_per_minute
        self._next_start = start + (60.0 / per_minute if per_minute else 0.0)
        await self._sleep(start - now)

    def _hold(self, seconds: float) -> None:
        """Hold all requests, because too many were sent."""
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
        """Return the usable vectors, by hash, and the errors of the others."""
        known = self._dimensions or self._embedder.dimensions
        lengths = Counter(len(vector) for vector in vectors if vector)
        usual = lengths.most_common(1)[0][0] if lengths else 0
        is_new = any(text_hash not in self._doubted for text_hash, _ in batch)
        if known is not None and lengths and known not in lengths and is_new:
            raise DimensionsError(
                self._embedder.model_id,
                f"gave vectors of {usual} dimensions where {known} were expected",
            )
        dimensions = known or usual
        good: dict[str, Sequence[float]] = {}
        bad: dict[str, str] = {}
        for (text_hash, _), vector in zip(batch, vectors, strict=True):
            norm = _norm(vector)
            if norm is None:
                bad[text_hash] = "gave something other than a vector"
            elif len(vector) != dimensions:
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

    async def _refuse(self, text_hash: str, reason: str) -> None:
        await self._believe(reason)
        self._believed = max(0, self._believed - 1)
        model = self._embedder.model_id
        named = {text_hash: str(EmbeddingError(model, reason))}
        await finish_in_thread(self._store.refuse, model, named)
        self.refused |= named

    async def _believe(self, reason: str) -> None:
        """Check that a refusal is due to the text; raise EmbeddingError if it is not."""
        async with self._trying_plain_text:
            if self._believed:
                return
            try:
                await self._answered([_PLAIN_TEXT], self._check_plain_text)
            except EmbeddingError as error:
                if error.kind is not FailureKind.REFUSED:
                    raise
                raise EmbeddingError(
                    self._embedder.model_id,
                    f"accepts no text ({reason}); check the model's name and its settings",
                    kind=FailureKind.UNAVAILABLE,
                ) from error
            self._believed = _BELIEVED

    def _check_plain_text(self, vectors: Sequence[Sequence[float]]) -> None:
        _, bad = self._sorted_out([("", _PLAIN_TEXT)], vectors)
        if bad:
            raise EmbeddingError(self._embedder.model_id, f"{bad['']}, whatever the text")


def _norm(vector: Sequence[float]) -> float | None:
    """Return the length of a vector, or None for anything else that a provider may return."""
    try:
        # Searches use single precision, in which it may be zero or infinite.
        return math.hypot(*array("f", [*vector])) if vector else None
    except (TypeError, OverflowError):
        return None
