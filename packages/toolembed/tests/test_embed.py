"""Embedding pending texts: within limits, and only once, despite failures and other processes."""

import asyncio
import hashlib
import math
import random
import threading
import time
from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolembed import (
    Backoff,
    DimensionsError,
    EmbeddingError,
    EmbeddingLimits,
    EmbeddingReport,
    FailureKind,
    RefusedText,
    ToolEmbedError,
    embed_pending,
)

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

    def __init__(self, answer=None):
        self.answer = answer
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


def embed(index, model, **options):
    options = {"retry": IMPATIENT, "lease_poll": 0.001} | options
    return asyncio.run(embed_pending(index, model, **options))


def test_every_pending_text_is_embedded_once_and_stored_under_its_hash():
    index, model = Memory(2500), Model()

    report = embed(index, model)

    assert report == EmbeddingReport(embedded=2500, refused=())
    assert index.vectors == {key: vector_of(text) for key, text in index.texts.items()}
    assert set(model.embedded.values()) == {1}
    assert set(model.sizes) == {64, 2500 % 64}


def test_without_pending_texts_no_lease_is_awaited():
    index = Memory()
    assert index.lease("embed-m").acquire(timeout=0)

    assert embed(index, Model()) == EmbeddingReport(embedded=0, refused=())


# Limits


def test_a_request_has_at_most_the_allowed_number_of_texts():
    model = Model()
    embed(Memory(10), model, limits=EmbeddingLimits(texts_per_request=4))
    assert model.sizes == [4, 4, 2]


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


def test_requesting_texts_of_an_unreadable_store_is_an_error(monkeypatch):
    wanted = set()

    class Broken(Memory):
        def pending(self, model_id, *, limit, among=None):
            if among is not None:
                raise OSError("the disk is gone")
            return super().pending(model_id, limit=limit)

    class Watched(Model):
        async def embed_documents(self, texts):
            wanted.add("nowhere")
            return await super().embed_documents(texts)

    index = Broken(20)
    with pytest.raises(OSError, match="the disk is gone"):
        embed(index, Watched(), limits=EmbeddingLimits(texts_per_request=4), first=wanted)
    assert len(index.vectors) == 4


def test_a_request_has_at_most_the_allowed_number_of_tokens():
    index, model = Memory(), Model()
    index.texts = {str(number): "x" * length for number, length in enumerate([30, 60, 3, 900, 3])}

    embed(index, model, limits=EmbeddingLimits(tokens_per_request=30))

    assert [list(map(len, texts)) for texts in model.requests] == [[30, 60], [3], [900], [3]]


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


def test_an_overlong_text_is_truncated_before_it_is_sent():
    index, model = Memory(), Model()
    index.texts = {"long": "ab名" * 1000, "short": "\ud800"}

    embed(index, model, limits=EmbeddingLimits(tokens_per_text=3))

    assert model.requests == [["ab名ab", "?"]]


def test_requests_run_concurrently_if_the_model_allows_it():
    model = Model()
    embed(Memory(64), model, limits=EmbeddingLimits(texts_per_request=4, concurrency=3))
    assert model.most_under_way == 3
    assert set(model.embedded.values()) == {1}


def test_by_default_each_request_is_stored_before_the_next_one():
    index = Memory(200)
    stored_before = []
    model = Model(lambda texts, number: stored_before.append(len(index.vectors)))

    embed(index, model)

    assert model.most_under_way == 1
    assert stored_before == [0, 64, 128, 192]


def test_a_rate_limit_spreads_the_requests():
    times = []

    async def answer(texts, number):
        times.append(asyncio.get_running_loop().time())

    async def job():
        times.append(asyncio.get_running_loop().time())
        limits = EmbeddingLimits(texts_per_request=1, concurrency=4, requests_per_minute=6000)
        await embed_pending(Memory(8), Model(answer), limits=limits)

    asyncio.run(job())

    # No request starts before its time; how much later depends on the machine.
    begun, *starts = times
    assert all(start - begun >= 0.01 * number - TICK for number, start in enumerate(starts))


@pytest.mark.parametrize("field", ["texts_per_request", "concurrency", "tokens_per_text"])
def test_a_limit_of_zero_is_refused(field):
    with pytest.raises(ValueError, match=field):
        EmbeddingLimits(**{field: 0})


# Failures


@pytest.mark.parametrize("failures", [1, 3])
def test_temporary_failures_are_retried(failures):
    model = Model(failing(FailureKind.TRANSIENT, times=failures))

    assert embed(Memory(10), model).embedded == 10
    assert len(model.requests) == failures + 1


def test_retries_are_bounded_and_stored_vectors_are_kept():
    index = Memory(100)
    model = Model(
        lambda texts, number: failing(FailureKind.TRANSIENT)(texts, 1) if number else None
    )

    with pytest.raises(EmbeddingError, match=r"model 'm': failure 1") as caught:
        embed(index, model)

    assert caught.value.kind is FailureKind.TRANSIENT
    assert len(index.vectors) == 64
    assert len(model.requests) == 1 + IMPATIENT.tries


def test_a_permanent_failure_is_not_retried():
    model = Model(failing(FailureKind.UNAVAILABLE))

    with pytest.raises(EmbeddingError) as caught:
        embed(Memory(10), model)

    assert (caught.value.model, caught.value.reason) == ("m", "failure 0")
    assert len(model.requests) == 1


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


def test_a_retry_after_longer_than_the_patience_is_an_error():
    model = Model(failing(FailureKind.TRANSIENT, retry_after=3600))

    with pytest.raises(EmbeddingError) as caught:
        embed(Memory(1), model)

    assert caught.value.retry_after == 3600
    assert len(model.requests) == 1


@given(
    failures=st.integers(1, 10**6),
    first=st.floats(0.001, 100),
    longest=st.floats(0.001, 10**6),
    jitter=st.booleans(),
    asked=st.none() | st.floats(0, 10**6),
)
def test_a_delay_doubles_up_to_a_bound_and_is_at_least_the_requested_one(
    failures, first, longest, jitter, asked
):
    backoff = Backoff(first=first, longest=longest, jitter=jitter)

    delay = backoff.delay(failures, asked)

    bound = min(longest, first * 2.0 ** min(failures - 1, 100))
    assert delay == max(bound, asked or 0.0) or (jitter and (asked or 0.0) <= delay <= bound)


def test_delays_with_jitter_are_spread_from_zero_to_the_bound():
    delays = [Backoff(first=4.0, jitter=True).delay(2) for _ in range(200)]

    assert min(delays) < 1.6
    assert 6.4 < max(delays) <= 8


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
    with pytest.raises(EmbeddingError, match="no key"):
        embed(
            Memory(2),
            Model(answer),
            limits=limits,
            retry=Backoff(first=10.0**9, longest=10.0**9, patience=10.0**9),
        )


def test_an_index_that_keeps_no_vectors_does_not_cause_an_endless_loop():
    class Forgetful(Memory):
        def put_vectors(self, model_id, vectors):
            pass

    model = Model()
    with pytest.raises(ToolEmbedError, match="m: the store does not keep the vectors"):
        embed(Forgetful(8_000), model)
    assert set(model.embedded.values()) == {1}


def test_an_error_that_is_not_an_embedding_error_is_passed_on():
    def answer(texts, number):
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        embed(Memory(3), Model(answer))


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
    assert report.refused == (
        RefusedText(text_hash="hash00017", reason="embedding model 'm': not this"),
    )
    assert index.refusals == {"hash00017": "embedding model 'm': not this"}
    assert set(model.embedded.values()) == {1}
    assert len(model.requests) == 2 * math.log2(64) + 2


def test_a_refusal_is_stored_before_the_next_request():
    index = Memory(20)

    def answer(texts, number):
        refusing("text 00000")(texts, number)
        if "text 00019" in texts and index.refusals:
            raise EmbeddingError("m", "no money", kind=FailureKind.UNAVAILABLE)

    with pytest.raises(EmbeddingError, match="no money"):
        embed(index, Model(answer), limits=EmbeddingLimits(texts_per_request=10))

    assert list(index.refusals) == ["hash00000"]


@given(unwanted=st.sets(st.integers(0, 199), max_size=7), concurrency=st.integers(1, 4))
def test_all_texts_that_are_not_refused_are_embedded_once(unwanted, concurrency):
    texts = [f"text {number:05}" for number in unwanted]
    index, model = Memory(200), Model(refusing(*texts))

    report = embed(index, model, limits=EmbeddingLimits(concurrency=concurrency))

    assert sorted(refused.text_hash for refused in report.refused) == sorted(
        f"hash{number:05}" for number in unwanted
    )
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

    assert (report.embedded, len(report.refused)) == (0, 30)
    assert set(index.refusals) == set(index.texts)


def test_a_failure_while_isolating_a_refusal_is_not_a_refusal():
    index = Memory(1)

    def answer(texts, number):
        kind = FailureKind.UNAVAILABLE if number else FailureKind.REFUSED
        raise EmbeddingError("m", f"failure {number}", kind=kind)

    with pytest.raises(EmbeddingError, match="failure 1"):
        embed(index, Model(answer))

    assert index.refusals == {}


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
    (refused,) = report.refused
    assert "embedding model 'm'" in refused.reason
    assert why in refused.reason
    assert index.refusals == {"hash00000": refused.reason}
    assert index.count_pending("m") == 0


@pytest.mark.parametrize("given_back", [0, 9, 11])
def test_a_wrong_number_of_vectors_is_an_error_that_names_the_model(given_back):
    index = Memory(10)
    model = Model(lambda texts, number: [[1.0, 2.0]] * given_back)

    with pytest.raises(EmbeddingError, match=f"gave {given_back} vectors for 10 texts"):
        embed(index, model)

    assert index.vectors == index.refusals == {}
    assert len(model.requests) == 4


def test_a_wrong_number_of_vectors_is_retried_once():
    model = Model(lambda texts, number: None if number else [[1.0, 2.0]])
    assert embed(Memory(10), model).embedded == 10


def test_changed_dimensions_are_an_error_that_names_the_model():
    index = Memory(100)
    model = Model(lambda texts, number: [[1.0] * (2 + number)] * len(texts))

    with pytest.raises(
        DimensionsError, match="'m' gave vectors of 3 dimensions where 2 were expected"
    ):
        embed(index, model)

    assert len(index.vectors) == 64


def test_unexpected_dimensions_are_an_error_that_names_the_model():
    model = Model()
    model.dimensions = 8
    with pytest.raises(DimensionsError, match="'m' gave vectors of 4 dimensions where 8"):
        embed(Memory(3), model)


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

    assert report == EmbeddingReport(embedded=number, refused=())
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
    assert all(seen[index.texts[each.text_hash]] >= 2 for each in report.refused)


def test_valid_vectors_of_a_partly_invalid_answer_are_kept():
    index = Memory(64)

    def answer(texts, number):
        if number == 0:
            return [vector_of(text) if place % 2 else None for place, text in enumerate(texts)]
        return None

    model = Model(answer)
    assert embed(index, model).embedded == 64
    assert model.sizes == [64, 32]
    assert index.puts == [32, 32]


# Requests that time out


def slow_above(most):
    def answer(texts, number):
        if len(texts) > most:
            raise EmbeddingError("m", "no answer within 10 s", kind=FailureKind.SLOW)

    return answer


def test_a_slow_model_gets_smaller_requests():
    model = Model(slow_above(5))

    assert embed(Memory(130), model).embedded == 130
    assert model.sizes[:3] == [64, 16, 4]
    assert set(model.sizes[2:]) <= {4, 2}
    assert set(model.embedded.values()) == {1}


def test_a_model_that_never_answers_raises_an_error_soon():
    model = Model(slow_above(0))

    with pytest.raises(EmbeddingError, match="no answer"):
        embed(Memory(1000), model)

    assert model.sizes == [64, 16, 4, 1]


# Progress


def test_progress_reports_done_and_total():
    seen = []
    embed(Memory(150), Model(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 150), (64, 150), (128, 150), (150, 150)]


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

    model = Model(answer)
    limits = EmbeddingLimits(texts_per_request=4, concurrency=concurrency)
    job = embed_pending(index, model, limits=limits, retry=Backoff(first=0.0, tries=50))

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


def test_different_models_do_not_wait_for_each_other():
    index = Memory(10)
    other = index.lease("embed-other")
    assert other.acquire(timeout=0)
    assert embed(index, Model()).embedded == 10


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

    assert asyncio.run(job()) == EmbeddingReport(embedded=0, refused=())


def test_waiting_for_others_can_be_cancelled():
    index = Memory(10)
    holder = index.lease("embed-m")
    assert holder.acquire(timeout=0)

    async def job():
        return await cancelled_after(20, embed_pending(index, Model(), lease_poll=0.001))

    assert asyncio.run(job()) == set()
    assert index.vectors == {}


# Every kind of failure together


@pytest.mark.parametrize("concurrency", [1, 4])
def test_ten_thousand_texts_are_embedded_despite_every_kind_of_failure(concurrency):
    fate = random.Random(concurrency)
    moments = count()
    miscounted = set()

    async def answer(texts, number):
        for _ in range(next(moments) % 3):
            await asyncio.sleep(0)
        if any(text.endswith("777") for text in texts):
            raise EmbeddingError("m", "not this", kind=FailureKind.REFUSED)
        draw = fate.random()
        if draw < 0.1:
            raise EmbeddingError("m", "429", retry_after=0.0)
        if draw < 0.2 and texts[0] not in miscounted:
            miscounted.add(texts[0])
            return [vector_of(text) for text in texts][1:]
        return None

    index, model = Memory(10_000), Model(answer)
    limits = EmbeddingLimits(concurrency=concurrency)

    report = embed(index, model, limits=limits, retry=Backoff(first=0.0, tries=30))

    assert report.embedded == 9_990
    assert len(report.refused) == 10
    assert len(index.vectors) == 9_990
    assert set(model.embedded.values()) == {1}
