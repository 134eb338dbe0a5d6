"""Embedding pending texts: within limits, and only once, despite failures and other processes."""

import asyncio
import hashlib
import math
import random
import threading
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
    """Answers as `answer(texts, request number)` says, and notes what it was asked."""

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


def test_when_nothing_is_pending_nobody_is_waited_for():
    index = Memory()
    assert index.lease("embed-m").acquire(timeout=0)

    assert embed(index, Model()) == EmbeddingReport(embedded=0, refused=())


# Limits


def test_a_request_holds_as_many_texts_as_allowed():
    model = Model()
    embed(Memory(10), model, limits=EmbeddingLimits(texts_per_request=4))
    assert model.sizes == [4, 4, 2]


def test_what_is_asked_for_while_texts_are_embedded_is_embedded_next():
    memory, wanted = Memory(20), set()

    class Watched(Model):
        async def embed_documents(self, texts):
            # Asked for during the first request; one of them is under way, one not pending.
            wanted.update({"hash00001", "hash00013", "hash00019", "nowhere"})
            return await super().embed_documents(texts)

    model = Watched()
    embed(memory, model, limits=EmbeddingLimits(texts_per_request=4), first=wanted)
    assert model.requests[1] == ["text 00013", "text 00019"]
    assert model.requests[0] == [f"text {n:05}" for n in range(4)]
    assert Counter(text for request in model.requests for text in request) == Counter(
        memory.texts.values()
    )


@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_is_asked_for_is_embedded_next_however_many_texts_stand_before_it(
    monkeypatch, concurrency
):
    monkeypatch.setattr("toolembed._embed._PAGE_TEXTS", 8)
    memory, wanted = Memory(40), set()

    class Watched(Model):
        async def embed_documents(self, texts):
            # One is under way, one of those that were looked at, and two stand behind these.
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


def test_who_asks_for_texts_of_a_store_that_cannot_be_read_is_told(monkeypatch):
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


def test_a_request_holds_no_more_tokens_than_allowed():
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
def test_requests_are_all_texts_in_order_within_the_limits(texts, most, tokens, longest):
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
def test_a_text_is_cut_between_two_characters_to_what_the_model_takes(text, tokens):
    cut = EmbeddingLimits(tokens_per_text=tokens).cut(text)

    assert text.encode("utf-8", "replace").decode().startswith(cut)
    assert 3 * tokens - 4 < len(cut.encode()) <= 3 * tokens or len(cut) == len(text)


def test_an_overlong_text_is_cut_before_it_is_sent():
    index, model = Memory(), Model()
    index.texts = {"long": "ab名" * 1000, "short": "\ud800"}

    embed(index, model, limits=EmbeddingLimits(tokens_per_text=3))

    assert model.requests == [["ab名ab", "?"]]


def test_requests_are_under_way_at_once_where_the_model_allows():
    model = Model()
    embed(Memory(64), model, limits=EmbeddingLimits(texts_per_request=4, concurrency=3))
    assert model.most_under_way == 3
    assert set(model.embedded.values()) == {1}


def test_one_request_at_a_time_is_the_default_and_each_is_stored_before_the_next():
    index = Memory(200)
    stored_before = []
    model = Model(lambda texts, number: stored_before.append(len(index.vectors)))

    embed(index, model)

    assert model.most_under_way == 1
    assert stored_before == [0, 64, 128, 192]


def test_a_rate_spreads_the_requests():
    times = []

    async def answer(texts, number):
        times.append(asyncio.get_running_loop().time())

    async def job():
        times.append(asyncio.get_running_loop().time())
        limits = EmbeddingLimits(texts_per_request=1, concurrency=4, requests_per_minute=6000)
        await embed_pending(Memory(8), Model(answer), limits=limits)

    asyncio.run(job())

    # None starts before its time; how much later it does is the machine's affair.
    begun, *starts = times
    assert all(start - begun >= 0.00999 * number for number, start in enumerate(starts))


@pytest.mark.parametrize("field", ["texts_per_request", "concurrency", "tokens_per_text"])
def test_a_limit_that_allows_nothing_is_a_mistake(field):
    with pytest.raises(ValueError, match=field):
        EmbeddingLimits(**{field: 0})


# Failures


@pytest.mark.parametrize("failures", [1, 3])
def test_what_failed_for_the_moment_is_tried_again(failures):
    model = Model(failing(FailureKind.TRANSIENT, times=failures))

    assert embed(Memory(10), model).embedded == 10
    assert len(model.requests) == failures + 1


def test_tries_are_bounded_and_what_was_stored_stays():
    index = Memory(100)
    model = Model(
        lambda texts, number: failing(FailureKind.TRANSIENT)(texts, 1) if number else None
    )

    with pytest.raises(EmbeddingError, match=r"model 'm': failure 1") as caught:
        embed(index, model)

    assert caught.value.kind is FailureKind.TRANSIENT
    assert len(index.vectors) == 64
    assert len(model.requests) == 1 + IMPATIENT.tries


def test_a_permanent_failure_is_not_tried_again():
    model = Model(failing(FailureKind.UNAVAILABLE))

    with pytest.raises(EmbeddingError) as caught:
        embed(Memory(10), model)

    assert (caught.value.model, caught.value.reason) == ("m", "failure 0")
    assert len(model.requests) == 1


def test_a_provider_is_left_alone_for_as_long_as_it_asks():
    times = []

    async def answer(texts, number):
        times.append(asyncio.get_running_loop().time())
        failing(FailureKind.TRANSIENT, times=1, retry_after=0.05)(texts, number)

    embed(Memory(3), Model(answer), limits=EmbeddingLimits(texts_per_request=1, concurrency=1))

    assert times[1] - times[0] >= 0.0499


def test_while_a_provider_is_left_alone_no_other_request_starts():
    times = []

    async def answer(texts, number):
        times.append(asyncio.get_running_loop().time())
        failing(FailureKind.TRANSIENT, times=1, retry_after=0.05)(texts, number)

    limits = EmbeddingLimits(texts_per_request=1, concurrency=2)
    embed(Memory(6), Model(answer), limits=limits)

    # Two were under way when it asked; the other one's worker waits as well.
    assert times[2] - times[0] >= 0.0499


def test_a_wait_longer_than_patience_is_the_callers_to_arrange():
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
def test_a_delay_doubles_with_each_failure_up_to_a_bound_and_is_never_less_than_was_asked(
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


def test_requests_under_way_when_another_fails_are_awaited_and_stored():
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


def test_a_failure_does_not_wait_for_the_pauses_of_others():
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


def test_an_index_that_keeps_no_vectors_does_not_make_it_go_on_forever():
    class Forgetful(Memory):
        def put_vectors(self, model_id, vectors):
            pass

    model = Model()
    with pytest.raises(ToolEmbedError, match="m: the store does not keep the vectors"):
        embed(Forgetful(8_000), model)
    assert set(model.embedded.values()) == {1}


def test_an_error_that_is_not_an_embedding_error_goes_through():
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


def test_a_refused_text_is_found_left_out_and_reported():
    index, model = Memory(64), Model(refusing("text 00017"))

    report = embed(index, model)

    assert report.embedded == 63
    assert report.refused == (
        RefusedText(text_hash="hash00017", reason="embedding model 'm': not this"),
    )
    assert index.refusals == {"hash00017": "embedding model 'm': not this"}
    assert set(model.embedded.values()) == {1}
    assert len(model.requests) == 2 * math.log2(64) + 2


def test_a_refusal_is_kept_before_the_next_request():
    index = Memory(20)

    def answer(texts, number):
        refusing("text 00000")(texts, number)
        if "text 00019" in texts and index.refusals:
            raise EmbeddingError("m", "no money", kind=FailureKind.UNAVAILABLE)

    with pytest.raises(EmbeddingError, match="no money"):
        embed(index, Model(answer), limits=EmbeddingLimits(texts_per_request=10))

    assert list(index.refusals) == ["hash00000"]


@given(unwanted=st.sets(st.integers(0, 199), max_size=7), concurrency=st.integers(1, 4))
def test_whichever_texts_are_refused_all_others_are_embedded_once(unwanted, concurrency):
    texts = [f"text {number:05}" for number in unwanted]
    index, model = Memory(200), Model(refusing(*texts))

    report = embed(index, model, limits=EmbeddingLimits(concurrency=concurrency))

    assert sorted(refused.text_hash for refused in report.refused) == sorted(
        f"hash{number:05}" for number in unwanted
    )
    assert report.embedded == 200 - len(unwanted)
    assert set(model.embedded.values()) == {1}


@pytest.mark.parametrize("number", [1, 5000])
def test_a_model_that_refused_everything_is_repaired_and_no_text_is_left_out_for_it(number):
    """Some providers refuse a wrong key as they refuse a text."""
    index, model = Memory(number), Model(failing(FailureKind.REFUSED))

    with pytest.raises(EmbeddingError, match="accepts no text") as caught:
        embed(index, model)

    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert len(model.requests) < 10
    assert index.refusals == {}
    assert embed(index, Model()).embedded == number


def test_a_model_that_comes_to_refuse_everything_has_few_texts_left_out_for_it():
    index = Memory(5000)

    def answer(texts, number):
        if number >= 2:
            failing(FailureKind.REFUSED)(texts, number)

    with pytest.raises(EmbeddingError, match="accepts no text"):
        embed(index, Model(answer))

    assert len(index.vectors) == 128
    assert len(index.refusals) <= 8


def test_a_model_that_takes_text_may_refuse_all_that_is_pending():
    index = Memory(30)
    model = Model(refusing(*index.texts.values()))

    report = embed(index, model, limits=EmbeddingLimits(concurrency=3, texts_per_request=5))

    assert (report.embedded, len(report.refused)) == (0, 30)
    assert set(index.refusals) == set(index.texts)


def test_what_fails_while_a_refusal_is_looked_into_is_not_a_refusal():
    index = Memory(1)

    def answer(texts, number):
        kind = FailureKind.UNAVAILABLE if number else FailureKind.REFUSED
        raise EmbeddingError("m", f"failure {number}", kind=kind)

    with pytest.raises(EmbeddingError, match="failure 1"):
        embed(index, Model(answer))

    assert index.refusals == {}


@pytest.mark.parametrize(("length", "taken"), [(6_000, 1_500), (2_001, 1_000), (2_000, None)])
def test_a_long_text_that_is_refused_is_tried_in_part(length, taken):
    """Three bytes are a token by estimate; of hexadecimal digits they are two."""
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
def test_one_unusable_vector_costs_its_own_text_only(bad, why):
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
def test_the_wrong_number_of_vectors_is_an_error_that_names_the_model(given_back):
    index = Memory(10)
    model = Model(lambda texts, number: [[1.0, 2.0]] * given_back)

    with pytest.raises(EmbeddingError, match=f"gave {given_back} vectors for 10 texts"):
        embed(index, model)

    assert index.vectors == index.refusals == {}
    assert len(model.requests) == 4


def test_a_wrong_number_of_vectors_is_forgiven_once():
    model = Model(lambda texts, number: None if number else [[1.0, 2.0]])
    assert embed(Memory(10), model).embedded == 10


def test_other_dimensions_than_before_are_an_error_that_names_the_model():
    index = Memory(100)
    model = Model(lambda texts, number: [[1.0] * (2 + number)] * len(texts))

    with pytest.raises(
        DimensionsError, match="'m' gave vectors of 3 dimensions where 2 were expected"
    ):
        embed(index, model)

    assert len(index.vectors) == 64


def test_other_dimensions_than_announced_are_an_error_that_names_the_model():
    model = Model()
    model.dimensions = 8
    with pytest.raises(DimensionsError, match="'m' gave vectors of 4 dimensions where 8"):
        embed(Memory(3), model)


def test_a_model_that_gives_only_zeros_is_not_asked_about_every_text():
    model = Model(lambda texts, number: [[0.0, 0.0]] * len(texts))

    with pytest.raises(EmbeddingError, match=r"vector of zeros, .*, whatever the text") as caught:
        embed(Memory(5000), model)

    assert caught.value.kind is FailureKind.TRANSIENT
    assert model.sizes == [64] + [1] * IMPATIENT.tries


@pytest.mark.parametrize("bad", [[math.nan] * 4, [0.0] * 4, None, [math.inf] * 4, ["a"]])
@pytest.mark.parametrize("number", [1, 60])
@pytest.mark.parametrize("times", [1, 2])
def test_a_first_answer_that_is_nonsense_costs_no_text_its_vector(bad, number, times):
    index = Memory(number)
    model = Model(lambda texts, request: [bad] * len(texts) if request < times else None)

    report = embed(index, model)

    assert report == EmbeddingReport(embedded=number, refused=())
    assert index.refusals == {}


@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.6))
def test_nonsense_now_and_then_costs_a_vector_only_what_was_nonsense_twice(seed, share):
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


def test_the_vectors_that_a_broken_answer_holds_are_kept_and_the_others_asked_for_again():
    index = Memory(64)

    def answer(texts, number):
        if number == 0:
            return [vector_of(text) if place % 2 else None for place, text in enumerate(texts)]
        return None

    model = Model(answer)
    assert embed(index, model).embedded == 64
    assert model.sizes == [64, 32]
    assert index.puts == [32, 32]


# Answers that do not come


def slow_above(most):
    def answer(texts, number):
        if len(texts) > most:
            raise EmbeddingError("m", "no answer within 10 s", kind=FailureKind.SLOW)

    return answer


def test_a_slow_model_is_asked_for_less_at_once():
    model = Model(slow_above(5))

    assert embed(Memory(130), model).embedded == 130
    assert model.sizes[:3] == [64, 16, 4]
    assert set(model.sizes[2:]) <= {4, 2}
    assert set(model.embedded.values()) == {1}


def test_a_model_that_does_not_answer_at_all_is_an_error_soon():
    model = Model(slow_above(0))

    with pytest.raises(EmbeddingError, match="no answer"):
        embed(Memory(1000), model)

    assert model.sizes == [64, 16, 4, 1]


# Progress


def test_progress_shows_how_far_it_is_and_how_far_there_is_to_go():
    seen = []
    embed(Memory(150), Model(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 150), (64, 150), (128, 150), (150, 150)]


def test_texts_that_are_added_meanwhile_are_left_to_whoever_adds_them():
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
    """Run a coroutine for some turns of the loop, cancel it, and tell what was left behind."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(coroutine)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return asyncio.all_tasks() - before


@given(steps=st.integers(0, 150), concurrency=st.integers(1, 3), seed=st.integers(0, 9))
def test_a_cancellation_at_any_moment_loses_only_what_is_under_way(steps, concurrency, seed):
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


def test_a_cancellation_during_the_write_waits_for_its_end():
    writing, may_end = threading.Event(), threading.Event()

    class SlowWrites(Memory):
        def put_vectors(self, model_id, vectors):
            writing.set()
            assert may_end.wait(timeout=30)
            super().put_vectors(model_id, vectors)

    index = SlowWrites(10)

    async def job():
        task = asyncio.create_task(embed_pending(index, Model()))
        await asyncio.to_thread(writing.wait, 30)
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


# Others at the same work


def test_who_comes_second_waits_and_finds_the_work_done():
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


def test_who_waits_goes_on_when_nothing_is_left_to_do_though_the_lease_is_not_free():
    index = Memory(10)
    holder = index.lease("embed-m")
    assert holder.acquire(timeout=0)

    async def job():
        task = asyncio.create_task(embed_pending(index, Model(), lease_poll=0.001))
        await asyncio.sleep(0.01)
        assert not task.done()
        index.vectors = {key: vector_of(text) for key, text in index.texts.items()}
        return await asyncio.wait_for(task, timeout=30)

    assert asyncio.run(job()) == EmbeddingReport(embedded=0, refused=())


def test_waiting_for_others_can_be_cancelled():
    index = Memory(10)
    holder = index.lease("embed-m")
    assert holder.acquire(timeout=0)

    async def job():
        return await cancelled_after(20, embed_pending(index, Model(), lease_poll=0.001))

    assert asyncio.run(job()) == set()
    assert index.vectors == {}


# All at once


@pytest.mark.parametrize("concurrency", [1, 4])
def test_ten_thousand_texts_through_a_provider_that_fails_in_every_way(concurrency):
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
