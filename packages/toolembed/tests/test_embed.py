"""Embedding pending texts: within limits, and only once, despite failures and other processes."""

import asyncio
import hashlib
import math
import random
import threading
import time
from collections import Counter
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolembed import Backoff, EmbeddingError, EmbeddingLimits, FailureKind, embed_pending
from toolembed._embed import EmbeddingReport

NO_LIMITS = EmbeddingLimits()
IMPATIENT = Backoff(first=0.001, jitter=True)
# An event loop may end a sleep early, by up to the resolution of its clock.
TICK = time.get_clock_info("monotonic").resolution + 1e-4


class Memory:
    """A minimal store of texts: these methods are enough for embedding."""

    def __init__(self, number=0, *, leases=None):
        self.texts = {f"hash{number:05}": f"text {number:05}" for number in range(number)}
        self.vectors = {}
        self.refusals = {}
        self.puts = []
        self.leases = {} if leases is None else leases

    def pending(self, model_id, *, limit, among=None):
        done = self.vectors.keys() | self.refusals.keys()
        some = self.texts.keys() if among is None else among
        hashes = (key for key in self.texts if key in some and key not in done)
        return {key: self.texts[key] for key, _ in zip(hashes, range(limit), strict=False)}

    def count_pending(self, model_id):
        return len(self.pending(model_id, limit=len(self.texts)))

    def refuse(self, model_id, reasons):
        self.refusals.update(reasons)

    def put_vectors(self, model_id, vectors):
        self.puts.append(len(vectors))
        self.vectors.update(vectors)

    def lease(self, purpose):
        return MemoryLease(self.leases.setdefault(purpose, threading.Lock()))


class MemoryLease:
    def __init__(self, lock):
        self.lock = lock

    def acquire(self, *, timeout):
        return self.lock.acquire(blocking=timeout > 0, timeout=timeout or -1)

    def release(self):
        self.lock.release()


def vector_of(text):
    digest = hashlib.sha256(text.encode()).digest()
    return [1.0 + byte for byte in digest[:4]]


class Model:
    """Answer with `answer(texts, request number)`, and record every request."""

    model_id = "m"
    dimensions = None

    def __init__(self, answer=None, limits=NO_LIMITS):
        self.answer = answer
        self.limits = limits
        self.requests = []
        self.embedded = Counter()
        self.under_way = 0
        self.most_under_way = 0

    async def embed_documents(self, texts):
        number = len(self.requests)
        self.requests.append(list(texts))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0)
            given_back = self.answer(texts, number) if self.answer else None
            if asyncio.iscoroutine(given_back):
                given_back = await given_back
        finally:
            self.under_way -= 1
        if given_back is not None:
            return given_back
        self.embedded.update(texts)
        return [vector_of(text) for text in texts]

    async def embed_query(self, text):
        return vector_of(text)

    @property
    def sizes(self):
        return [len(texts) for texts in self.requests]


def failing(kind, *, times=math.inf, retry_after=None):
    def answer(texts, number):
        if number < times:
            raise EmbeddingError("m", f"failure {number}", kind=kind, retry_after=retry_after)

    return answer


FAILS = pytest.raises(EmbeddingError, match="embedding model 'm': failure")


def embed(index, model, *, limits=NO_LIMITS, **options):
    model.limits = limits
    options = {"retry": IMPATIENT, "lease_poll": 0.001} | options
    return asyncio.run(embed_pending(index, model, **options))


def test_every_pending_text_is_embedded_once_and_stored_under_its_hash():
    index, model = Memory(2500), Model()

    progress = []
    report = embed(index, model, progress=lambda *done_of_all: progress.append(done_of_all))

    assert report == EmbeddingReport(embedded=2500, refused={})
    assert (progress[0], progress[1], progress[-1]) == ((0, 2500), (64, 2500), (2500, 2500))
    assert index.vectors == {key: vector_of(text) for key, text in index.texts.items()}
    assert set(model.embedded.values()) == {1}
    assert set(model.sizes) == {64, 2500 % 64}


# Limits


@pytest.mark.parametrize("concurrency", [1, 3])
def test_requested_texts_are_embedded_next_even_if_many_are_pending(monkeypatch, concurrency):
    monkeypatch.setattr("toolembed._embed._PAGE_TEXTS", 8)
    memory, wanted = Memory(40), set()

    class Watched(Model):
        async def embed_documents(self, texts):
            # One is being embedded, one is on the page that was read, and two are on later pages.
            wanted.update({"hash00001", "hash00005", "hash00030", "hash00039", "nowhere"})
            return await super().embed_documents(texts)

    model = Watched()
    limits = EmbeddingLimits(texts_per_request=2, concurrency=concurrency)
    embed(memory, model, limits=limits, first=wanted)

    soon = {text for request in model.requests[: concurrency + 2] for text in request}
    assert {"text 00005", "text 00030", "text 00039"} <= soon
    assert Counter(text for request in model.requests for text in request) == Counter(
        memory.texts.values()
    )


@given(
    texts=st.lists(st.text(st.characters(codec=None), max_size=40), max_size=30),
    most=st.integers(1, 5),
    tokens=st.integers(1, 30),
    longest=st.none() | st.integers(1, 10),
)
def test_requests_contain_all_texts_in_order_within_the_limits(texts, most, tokens, longest):
    limits = EmbeddingLimits(
        texts_per_request=most, tokens_per_request=tokens, tokens_per_text=longest
    )

    requests = list(limits.requests(texts))

    assert [text for request in requests for text in request] == [
        limits.cut(text) for text in texts
    ]
    for request in requests:
        assert 0 < len(request) <= most
        assert len(request) == 1 or sum(len(text.encode()) for text in request) <= 3 * tokens
        assert list(limits.requests(request)) == [request]


@given(st.text(st.characters(codec=None), max_size=50), st.integers(1, 20))
def test_a_text_is_truncated_between_characters_to_the_models_limit(text, tokens):
    cut = EmbeddingLimits(tokens_per_text=tokens).cut(text)

    assert text.encode("utf-8", "replace").decode().startswith(cut)
    assert 3 * tokens - 4 < len(cut.encode()) <= 3 * tokens or len(cut) == len(text)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_kill_loses_at_most_the_requests_that_may_run_at_once(concurrency):
    index, stored = Memory(64), []
    model = Model(lambda texts, number: stored.append(len(index.vectors)))

    embed(index, model, limits=EmbeddingLimits(texts_per_request=4, concurrency=concurrency))

    assert model.most_under_way == concurrency
    assert all(done >= 4 * (number + 1 - concurrency) for number, done in enumerate(stored))


def test_a_rate_limit_spreads_the_requests():
    times = []

    async def answer(texts, number):
        times.append(asyncio.get_running_loop().time())

    async def job():
        times.append(asyncio.get_running_loop().time())
        limits = EmbeddingLimits(texts_per_request=1, concurrency=4, requests_per_minute=6000)
        await embed_pending(Memory(8), Model(answer, limits))

    asyncio.run(job())

    # No request starts before its time; how much later depends on the machine.
    begun, *starts = times
    assert all(start - begun >= 0.01 * number - TICK for number, start in enumerate(starts))


@pytest.mark.parametrize("field", ["texts_per_request", "concurrency", "tokens_per_text"])
def test_a_limit_of_zero_is_refused(field):
    with pytest.raises(ValueError, match=field):
        EmbeddingLimits(**{field: 0})


# Failures


@pytest.mark.parametrize(
    ("failure", "requests", "outcome"),
    [
        (failing(FailureKind.TRANSIENT, times=3), 4, nullcontext()),
        (failing(FailureKind.TRANSIENT), IMPATIENT.tries, FAILS),
        (failing(FailureKind.TRANSIENT, retry_after=3600), 1, FAILS),
        (failing(FailureKind.UNAVAILABLE), 1, FAILS),
    ],
)
def test_temporary_failures_are_retried_but_not_for_long(failure, requests, outcome):
    index, model = Memory(100), Model(failure)
    with outcome as caught:
        assert embed(index, model, limits=EmbeddingLimits(texts_per_request=100)).embedded == 100

    assert len(model.requests) == requests
    assert caught is None or caught.value.reason == f"failure {requests - 1}"


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_provider_gets_no_requests_during_its_retry_after(concurrency):
    times = []

    async def answer(texts, number):
        times.append(asyncio.get_running_loop().time())
        failing(FailureKind.TRANSIENT, times=1, retry_after=0.05)(texts, number)

    limits = EmbeddingLimits(texts_per_request=1, concurrency=concurrency)
    embed(Memory(6), Model(answer), limits=limits)

    # Workers whose requests were running when the provider asked for a delay wait as well.
    assert times[concurrency] - times[0] >= 0.05 - TICK


def test_running_requests_are_stored_when_another_one_fails():
    index = Memory(4)

    async def answer(texts, number):
        if number == 0:
            raise EmbeddingError("m", "no key", kind=FailureKind.UNAVAILABLE)
        for _ in range(5):
            await asyncio.sleep(0)

    model = Model(answer)
    with pytest.raises(EmbeddingError, match="no key"):
        embed(index, model, limits=EmbeddingLimits(texts_per_request=1, concurrency=3))

    assert sorted(index.vectors) == ["hash00001", "hash00002"]
    assert len(model.requests) == 3


def test_a_failure_does_not_wait_for_the_delays_of_others():
    async def answer(texts, number):
        if number == 0:
            raise EmbeddingError("m", "busy")
        await asyncio.sleep(0)
        raise EmbeddingError("m", "no key", kind=FailureKind.UNAVAILABLE)

    limits = EmbeddingLimits(texts_per_request=1, concurrency=2)
    retry = Backoff(first=10.0**9, longest=10.0**9, patience=10.0**9)
    with pytest.raises(EmbeddingError, match="no key"):
        embed(Memory(2), Model(answer), limits=limits, retry=retry)


def test_an_index_that_keeps_no_vectors_does_not_cause_an_endless_loop():
    class Forgetful(Memory):
        def put_vectors(self, model_id, vectors):
            pass

    model = Model()
    with pytest.raises(EmbeddingError, match="m: the store does not keep the vectors"):
        embed(Forgetful(8_000), model)
    assert set(model.embedded.values()) == {1}


# Refused texts


def refusing(*unwanted):
    def answer(texts, number):
        if set(texts) & set(unwanted):
            raise EmbeddingError("m", "not this", kind=FailureKind.REFUSED)

    return answer


def test_a_refused_text_is_identified_skipped_and_reported():
    index, model = Memory(64), Model(refusing("text 00017"))

    report = embed(index, model)

    assert report.embedded == 63
    assert report.refused == index.refusals == {"hash00017": "embedding model 'm': not this"}
    assert set(model.embedded.values()) == {1}
    assert len(model.requests) == 2 * math.log2(64) + 2


@given(unwanted=st.sets(st.integers(0, 199), max_size=7), concurrency=st.integers(1, 4))
def test_all_texts_that_are_not_refused_are_embedded_once(unwanted, concurrency):
    texts = [f"text {number:05}" for number in unwanted]
    index, model = Memory(200), Model(refusing(*texts))

    report = embed(index, model, limits=EmbeddingLimits(concurrency=concurrency))

    assert set(report.refused) == {f"hash{number:05}" for number in unwanted}
    assert report.embedded == 200 - len(unwanted)
    assert set(model.embedded.values()) == {1}


@pytest.mark.parametrize("number", [1, 5000])
def test_texts_refused_by_a_model_that_accepts_nothing_are_embedded_once_it_works(number):
    """Some providers reject a wrong key with the same error as a text."""
    index, model = Memory(number), Model(failing(FailureKind.REFUSED))

    with pytest.raises(EmbeddingError, match="accepts no text") as caught:
        embed(index, model)

    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert len(model.requests) < 10
    assert index.refusals == {}
    assert embed(index, Model()).embedded == number


def test_a_model_that_starts_refusing_everything_loses_few_texts():
    index = Memory(5000)

    def answer(texts, number):
        if number >= 2:
            failing(FailureKind.REFUSED)(texts, number)

    with pytest.raises(EmbeddingError, match="accepts no text"):
        embed(index, Model(answer))

    assert len(index.vectors) == 128
    assert len(index.refusals) <= 8


def test_a_working_model_can_refuse_all_pending_texts():
    index = Memory(30)
    model = Model(refusing(*index.texts.values()))

    report = embed(index, model, limits=EmbeddingLimits(concurrency=3, texts_per_request=5))

    assert (report.embedded, set(index.refusals)) == (0, set(index.texts))


@pytest.mark.parametrize(("length", "taken"), [(6_000, 1_500), (2_001, 1_000), (2_000, None)])
def test_a_refused_long_text_is_retried_truncated(length, taken):
    """Three bytes are estimated as one token, but three hexadecimal digits can be two."""
    index = Memory()
    index.texts = {"plain": "text", "long": "0f" * (length // 2) + "0" * (length % 2)}

    def answer(texts, number):
        if any(len(text) > 1_500 for text in texts):
            raise EmbeddingError("m", "too long", kind=FailureKind.REFUSED)

    model = Model(answer)
    embed(index, model)

    assert set(index.vectors) == ({"plain", "long"} if taken else {"plain"})
    assert set(index.refusals) == (set() if taken else {"long"})
    assert max(map(len, model.embedded.keys() - {"Read a file."})) == (taken or 4)


# Vectors that cannot be used


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ([0.0] * 4, "zeros"),
        ([1e-320] * 4, "zeros"),
        ([1e39] * 4, "not finite"),
        ([math.nan, 1.0, 1.0, 1.0], "not finite"),
        ([1.0, -math.inf, 1.0, 1.0], "not finite"),
        ([1.0] * 3, "3 dimensions where 4 were expected"),
        ([], "other than a vector"),
        (None, "other than a vector"),
        (["1.0"] * 4, "other than a vector"),
        ([10**400] * 4, "other than a vector"),
    ],
)
def test_an_unusable_vector_affects_only_its_own_text(bad, why):
    index = Memory(10)

    def answer(texts, number):
        return [bad if text == "text 00000" else vector_of(text) for text in texts]

    report = embed(index, Model(answer))

    assert report.embedded == 9
    assert report.refused == index.refusals
    assert "embedding model 'm'" in index.refusals["hash00000"]
    assert why in index.refusals["hash00000"]
    assert index.count_pending("m") == 0


@pytest.mark.parametrize("given_back", [0, 9, 11])
def test_a_wrong_number_of_vectors_is_an_error_that_names_the_model(given_back):
    index = Memory(10)
    model = Model(lambda texts, number: [[1.0, 2.0]] * given_back)

    with pytest.raises(EmbeddingError, match=f"gave {given_back} vectors for 10 texts"):
        embed(index, model)

    assert index.vectors == index.refusals == {}
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("announced", "given", "expected", "stored"), [(None, 3, 2, 64), (8, 2, 8, 0)]
)
def test_unexpected_dimensions_are_an_error(announced, given, expected, stored):
    index = Memory(100)
    model = Model(lambda texts, number: [[1.0] * (2 + number)] * len(texts))
    model.dimensions = announced
    reason = f"gave vectors of {given} dimensions where {expected} were expected"
    with pytest.raises(EmbeddingError, match=f"^embedding model 'm' {reason}$") as caught:
        embed(index, model)

    assert caught.value.kind is FailureKind.DIMENSIONS
    assert len(index.vectors) == stored


def test_a_model_that_returns_only_zeros_is_not_called_for_every_text():
    model = Model(lambda texts, number: [[0.0, 0.0]] * len(texts))

    with pytest.raises(EmbeddingError, match=r"vector of zeros, .*, whatever the text") as caught:
        embed(Memory(5000), model)

    assert caught.value.kind is FailureKind.TRANSIENT
    assert model.sizes == [64] + [1] * IMPATIENT.tries


@pytest.mark.parametrize("bad", [[math.nan] * 4, [0.0] * 4, None, [math.inf] * 4, ["a"]])
@pytest.mark.parametrize("number", [1, 60])
@pytest.mark.parametrize("times", [1, 2])
def test_an_invalid_first_answer_loses_no_vectors(bad, number, times):
    index = Memory(number)
    model = Model(lambda texts, request: [bad] * len(texts) if request < times else None)

    report = embed(index, model)

    assert report == EmbeddingReport(embedded=number, refused={})
    assert index.refusals == {}


@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.6))
def test_occasional_invalid_answers_lose_only_texts_that_failed_twice(seed, share):
    fate, seen, index = random.Random(seed), Counter(), Memory(40)

    def answer(texts, number):
        given_back = []
        for text in texts:
            is_bad = text in index.texts.values() and fate.random() < share
            seen[text] += is_bad
            given_back.append([0.0] * 4 if is_bad else vector_of(text))
        return given_back

    report = embed(index, Model(answer), limits=EmbeddingLimits(texts_per_request=7, concurrency=2))

    assert report.embedded + len(report.refused) == 40
    assert all(seen[index.texts[each]] >= 2 for each in report.refused)


# Requests that time out


@pytest.mark.parametrize(
    ("most", "sizes", "outcome"),
    [
        (5, [64, 16, 4], nullcontext()),
        (0, [64, 16, 4, 1], pytest.raises(EmbeddingError, match="no answer")),
    ],
)
def test_a_slow_model_gets_smaller_requests(most, sizes, outcome):
    def answer(texts, number):
        if len(texts) > most:
            raise EmbeddingError("m", "no answer within 10 s", kind=FailureKind.SLOW)

    model = Model(answer)
    with outcome:
        assert embed(Memory(130), model).embedded == 130

    assert model.sizes[: len(sizes)] == sizes
    assert set(model.embedded.values()) <= {1}


def test_texts_added_meanwhile_are_left_to_the_process_that_added_them():
    index = Memory(10)

    def answer(texts, number):
        if number == 0:
            index.texts |= Memory(20).texts

    seen = []
    model = Model(answer)
    assert embed(index, model, progress=lambda *step: seen.append(step)).embedded == 10
    assert seen[-1] == (10, 10)
    assert embed(index, model).embedded == 10


# Cancellation


async def cancelled_after(steps, coroutine):
    """Run a coroutine for some event loop iterations, cancel it, and return the tasks left over."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(coroutine)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return asyncio.all_tasks() - before


@given(steps=st.integers(0, 150), concurrency=st.integers(1, 3), seed=st.integers(0, 9))
def test_cancelling_at_any_moment_loses_only_running_requests(steps, concurrency, seed):
    index = Memory(200)
    fate = random.Random(seed)

    async def answer(texts, number):
        for _ in range(fate.randrange(4)):
            await asyncio.sleep(0)
        if fate.random() < 0.1:
            raise EmbeddingError("m", "busy")

    limits = EmbeddingLimits(texts_per_request=4, concurrency=concurrency)
    model = Model(answer, limits)
    job = embed_pending(index, model, retry=Backoff(first=0.0, tries=50))

    try:
        left_behind = asyncio.run(cancelled_after(steps, job))
    except pytest.fail.Exception:
        left_behind = set()
        assert len(index.vectors) == 200

    assert left_behind == set()
    assert model.under_way == 0
    assert model.embedded.total() - len(index.vectors) <= 4 * concurrency
    assert all(not lock.locked() for lock in index.leases.values())
    puts = len(index.puts)
    model.answer = None
    embed(index, model, limits=limits)
    assert sum(model.embedded.values()) <= 200 + 4 * concurrency
    assert index.vectors == {key: vector_of(text) for key, text in index.texts.items()}
    assert len(index.puts) >= puts


def test_cancelling_during_a_write_waits_for_it():
    writing, may_end = threading.Event(), threading.Event()

    class SlowWrites(Memory):
        def put_vectors(self, model_id, vectors):
            writing.set()
            assert may_end.wait(timeout=60)
            super().put_vectors(model_id, vectors)

    index = SlowWrites(10)

    async def job():
        task = asyncio.create_task(embed_pending(index, Model()))
        assert await asyncio.to_thread(writing.wait, 60)
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(index.vectors) == 10

    asyncio.run(job())


# Concurrent processes


def test_a_second_process_waits_and_finds_the_work_done():
    async def answer(texts, number):
        await asyncio.sleep(0.001)

    async def both():
        first, second = Model(answer), Model(answer)
        index = Memory(300)
        reports = await asyncio.gather(
            embed_pending(index, first, lease_poll=0.001),
            embed_pending(index, second, lease_poll=0.001),
        )
        return index, reports, first.embedded + second.embedded

    index, reports, embedded = asyncio.run(both())

    assert sorted(report.embedded for report in reports) == [0, 300]
    assert set(embedded.values()) == {1}
    assert len(index.vectors) == 300


def test_waiting_for_the_lease_ends_when_nothing_is_pending():
    index = Memory(10)
    holder = index.lease("embed-m")
    assert holder.acquire(timeout=0)

    async def job():
        task = asyncio.create_task(embed_pending(index, Model(), lease_poll=0.001))
        await asyncio.sleep(0.01)
        assert not task.done()
        index.vectors = {key: vector_of(text) for key, text in index.texts.items()}
        return await asyncio.wait_for(task, timeout=60)

    assert asyncio.run(job()) == EmbeddingReport(embedded=0, refused={})
