"""Embedding pending texts: paced, retried, split when refused, each request stored at once."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from toolembed._backoff import Backoff
from toolembed._errors import EmbeddingError, FailureKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from toolembed._protocols import Embedder, PendingTexts

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Batch = list[tuple[str, str]]

_DEFAULT_RETRY = Backoff(jitter=True)
# Finding pending texts means checking every text, so ask for many at a time.
_PAGE_TEXTS = 4_000
# For the same reason, the lease is tried more often than pending texts are requested.
_TRIES_PER_LOOK = 8
# With a wrong key or setting every text is refused, and a failing provider returns nonsense for
# all. A refusal counts only if the model still accepts this control text, or has just accepted
# another one, and at most this many refusals in a row are trusted.
_CONTROL_TEXT = "Read a file."
_TRUSTED = 8
# The limits estimate tokens: a text within them may still be too long for the model, such as one of
# hexadecimal digits. A text shorter than this, in characters, is not refused for its length.
_LONG_TEXT = 2_000
# A wrong number of vectors has to be paid for, and twice in a row is hardly an accident.
_MISCOUNTS = 2
_FEWER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingReport:
    """The result of one round of embedding.

    Attributes:
        embedded: How many texts got a vector.
        refused: By hash, why texts got none, naming the model; the store has the reasons too.
    """

    embedded: int
    refused: Mapping[str, str]


async def embed_pending(
    store: PendingTexts,
    embedder: Embedder,
    *,
    retry: Backoff = _DEFAULT_RETRY,
    progress: Callable[[int, int], object] | None = None,
    first: Set[str] = frozenset(),
    at_most: int | None = None,
    lease_poll: float = 0.25,
) -> EmbeddingReport:
    """Embed every text that has no vector of this model yet, in requests within its limits.

    Only one process at a time embeds for a model: the others wait, and then find the work done.
    The vectors of each request are stored before the next one starts, so a kill costs at most the
    requests in progress: one, or as many as `limits.concurrency` allows. A cancellation costs no
    more, and leaves neither a task nor the lease behind. After a failure, the answers to requests
    in progress are still stored, because they may have been paid for.

    A request that is refused, or answered with unusable vectors, is repeated with fewer texts until
    the refused text is alone; of a long one, its first half is tried. The reason is stored, and all
    others are embedded. A request that times out is repeated with a quarter of its texts.

    Args:
        store: The store of texts and vectors.
        embedder: The model, with its limits.
        retry: How often, and after which delays, a failed request is repeated.
        progress: Called with the number of texts embedded so far, and the total.
        first: Hashes of texts to embed before the others. It is read before each request, so hashes
            added meanwhile are embedded next.
        at_most: How many texts to embed, without waiting for other processes; None for all.
        lease_poll: Seconds between two tries to get the lease.

    Returns:
        The report, which is empty if another process has done the work.

    Raises:
        EmbeddingError: The model returns no vectors for any text; earlier ones are stored. Or the
            length of its vectors has changed, or the store does not keep them. The store's own
            errors pass through.
    """
    model_id, limits, held = embedder.model_id, embedder.limits, False
    requests = _Requests(store, embedder, retry=retry, first=first, progress=progress)
    lease = await _finish_in_thread(store.lease, f"embed-{model_id}")

    def look(limit: int) -> Mapping[str, str]:
        return store.pending(model_id, limit=limit)

    def acquire() -> bool:
        # Recorded in the thread that acquires it: a cancellation must not lose it.
        nonlocal held
        held = lease.acquire(timeout=0)
        return held

    try:
        tries = 0
        while not await _finish_in_thread(acquire):
            # The process that has it may have done the work.
            is_time = tries % _TRIES_PER_LOOK == 0
            if at_most is not None or (is_time and not await _finish_in_thread(look, 1)):
                return EmbeddingReport(embedded=0, refused={})
            tries += 1
            await asyncio.sleep(lease_poll)
        page = max(_PAGE_TEXTS, limits.texts_per_request * limits.concurrency)
        page -= page % limits.texts_per_request
        page = page if at_most is None else min(page, at_most)
        texts = await _finish_in_thread(look, page)
        if texts and progress is not None:
            requests.total = await _finish_in_thread(store.count_pending, model_id)
            progress(0, requests.total)
        while texts:
            await requests.embed(texts)
            if len(texts) < page or at_most is not None:
                # Only texts that were pending at the start: the process that adds others also
                # embeds them.
                break
            previous, texts = texts, await _finish_in_thread(look, page)
            if texts.keys() == previous.keys():
                # Embedding them again would never end, and might cost money.
                reason = "the store does not keep the vectors"
                raise EmbeddingError(model_id, reason, message=f"{model_id}: {reason}")
    finally:
        if held:
            lease.release()
    return EmbeddingReport(embedded=requests.embedded, refused=requests.refused)


class _Stopped(Exception):  # noqa: N818 - not an error
    """Another request failed; stop."""


class _Requests:
    """Embeds texts and stores their vectors, with as many concurrent requests as a model allows.

    Attributes:
        embedded: How many vectors have been stored.
        refused: By hash, the reasons why texts got no vector; they are stored too.
        total: How many texts there are, as far as is known.
    """

    def __init__(
        self,
        store: PendingTexts,
        embedder: Embedder,
        *,
        retry: Backoff,
        first: Set[str],
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.embedded = 0
        self.refused: dict[str, str] = {}
        self.total = 0
        self._store = store
        self._embedder = embedder
        self._limits = embedder.limits
        self._retry = retry
        self._first = first
        self._progress = progress
        self._known: set[str] = set()
        self._brought: set[str] = set()
        self._trusted = 0
        self._trying_control_text = asyncio.Lock()
        self._dimensions: int | None = None
        self._most_texts = self._limits.texts_per_request
        self._doubted: set[str] = set()
        self._waiting: deque[Batch] = deque()
        self._next_start = 0.0
        self._failed = asyncio.Event()
        self._failure: Exception | None = None

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
                    if not self._failed.is_set():
                        self._failure = error
                        self._failed.set()
                    raise

    def _divided(self, texts: Mapping[str, str]) -> list[Batch]:
        hashes = iter(texts)
        return [
            [(next(hashes), text) for text in request]
            for request in self._limits.requests(texts.values())
        ]

    async def _next(self) -> Batch:
        """Take the texts of the next request from the queue; none if it is empty."""
        # Only once each, because a refused or doubtful text is sent again alone.
        if wanted := self._first - self._brought:
            self._brought |= wanted
            await self._bring_forward(wanted)
        if not self._waiting:
            return []
        batch = self._waiting.popleft()
        if len(batch) > self._most_texts:
            self._waiting.appendleft(batch[self._most_texts :])
        return batch[: self._most_texts]

    async def _bring_forward(self, wanted: Set[str]) -> None:
        """Move texts to the front of the queue; those that are not in it are read."""
        texts: dict[str, str] = {}
        if new := wanted - self._known:
            self._known |= new
            model_id = self._embedder.model_id
            texts |= await _finish_in_thread(
                lambda: self._store.pending(model_id, limit=len(new), among=new)
            )
        others: list[Batch] = []
        for batch in self._waiting:
            texts.update(each for each in batch if each[0] in wanted)
            if rest := [each for each in batch if each[0] not in wanted]:
                others.append(rest)
        self._waiting = deque([*self._divided(texts), *others])

    async def _embed(self, batch: Batch) -> None:
        (text_hash, text), *others = batch
        try:
            vectors = await self._answer([text for _, text in batch])
        except EmbeddingError as error:
            if error.kind is FailureKind.SLOW and others:
                self._most_texts = max(1, len(batch) // _FEWER)
                self._waiting.appendleft(batch)
            elif error.kind is not FailureKind.REFUSED:
                raise
            elif others:
                await self._divide(batch, error.reason)
            elif len(text) > _LONG_TEXT:
                self._waiting.appendleft([(text_hash, text[: len(text) // 2])])
            else:
                await self._refuse(text_hash, error.reason)
            return
        good, bad = self._sorted_out(batch, vectors)
        if good:
            await _finish_in_thread(self._store.put_vectors, self._embedder.model_id, good)
            self.embedded += len(good)
            self._trusted = _TRUSTED
            self.total = max(self.total, self.embedded)
            if self._progress is not None:
                self._progress(self.embedded, self.total)
        if not bad:
            return
        # Another text or a glitch may have been the cause: they are tried again.
        if not good and not others and text_hash in self._doubted:
            await self._refuse(text_hash, bad[text_hash])
            return
        self._doubted |= bad.keys()
        if good:
            self._waiting.appendleft([each for each in batch if each[0] in bad])
        else:
            await self._divide(batch, next(iter(bad.values())))

    async def _divide(self, batch: Batch, reason: str) -> None:
        """Split a request in two, if the model accepts any text at all."""
        await self._confirm_refusal(reason)
        middle = len(batch) // 2
        self._waiting.extendleft(part for part in (batch[middle:], batch[:middle]) if part)

    async def _answer(
        self, texts: list[str], check: Callable[[list[list[float]]], None] | None = None
    ) -> list[list[float]]:
        """Retry a request until it is answered; delays end early if another request fails."""
        failures, miscounts, waited = 0, 0, 0.0
        while True:
            await self._pace()
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
                    # All requests wait: too many were sent.
                    now = asyncio.get_running_loop().time()
                    self._next_start = max(self._next_start, now + delay)
            else:
                return vectors
            await self._sleep(delay)

    async def _pace(self) -> None:
        """Wait until the rate allows one more request."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_start)
        per_minute = self._limits.requests_per_minute
        self._next_start = start + (60.0 / per_minute if per_minute else 0.0)
        await self._sleep(start - now)

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            if seconds > 0:
                async with asyncio.timeout(seconds):
                    await self._failed.wait()
        if self._failed.is_set():
            raise _Stopped

    def _sorted_out(
        self, batch: Batch, vectors: Sequence[Sequence[float]]
    ) -> tuple[dict[str, Sequence[float]], dict[str, str]]:
        """Return the usable vectors, by hash, and the errors of the others."""
        model_id, known = self._embedder.model_id, self._dimensions or self._embedder.dimensions
        lengths = Counter(len(vector) for vector in vectors if vector)
        usual = lengths.most_common(1)[0][0] if lengths else 0
        is_new = any(text_hash not in self._doubted for text_hash, _ in batch)
        if known is not None and lengths and known not in lengths and is_new:
            reason = f"gave vectors of {usual} dimensions where {known} were expected"
            message = f"embedding model {model_id!r} {reason}"
            raise EmbeddingError(model_id, reason, kind=FailureKind.DIMENSIONS, message=message)
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
        await self._confirm_refusal(reason)
        self._trusted = max(0, self._trusted - 1)
        model_id = self._embedder.model_id
        reasons = {text_hash: str(EmbeddingError(model_id, reason))}
        await _finish_in_thread(self._store.refuse, model_id, reasons)
        self.refused |= reasons

    async def _confirm_refusal(self, reason: str) -> None:
        """Check that a refusal is due to the text; raise EmbeddingError if it is not."""
        async with self._trying_control_text:
            if self._trusted:
                return
            try:
                await self._answer([_CONTROL_TEXT], self._check_control_text)
            except EmbeddingError as error:
                if error.kind is not FailureKind.REFUSED:
                    raise
                raise EmbeddingError(
                    self._embedder.model_id,
                    f"accepts no text ({reason}); check the model's name and its settings",
                    kind=FailureKind.UNAVAILABLE,
                ) from error
            self._trusted = _TRUSTED

    def _check_control_text(self, vectors: Sequence[Sequence[float]]) -> None:
        _, bad = self._sorted_out([("", _CONTROL_TEXT)], vectors)
        if bad:
            raise EmbeddingError(self._embedder.model_id, f"{bad['']}, whatever the text")


def _norm(vector: Sequence[float]) -> float | None:
    """Return the length of a vector, or None for anything else that a provider may return."""
    try:
        # Searches use single precision, in which it may be zero or infinite.
        return math.hypot(*array("f", [*vector])) if vector else None
    except (TypeError, OverflowError):
        return None


async def _finish_in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a function in a worker thread; a cancellation waits for its end.

    Otherwise the thread could still use objects that the caller closes or releases.
    """
    # Not a task: the end of the loop cancels all tasks, but threads continue.
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        # Retrieved, so that asyncio does not report it as never retrieved.
        future.exception()
        raise
