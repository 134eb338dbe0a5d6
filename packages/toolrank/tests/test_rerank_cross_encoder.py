"""Any function that scores pairs of texts orders the first hits, if it does so soundly."""

import asyncio
import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Candidate, CrossEncoderReranker, RankedHit

SCORES = (0.9, 0.5, 0.3)


def candidates():
    return [
        Candidate(
            hit=RankedHit(id=f"t{index}", score=score, contributions=()), text=f"text {index}"
        )
        for index, score in enumerate(SCORES)
    ]


def rerank(score, query="q", **options):
    return asyncio.run(CrossEncoderReranker(score, **options).rerank(query, candidates()))


def ids(outcome):
    return [hit.id for hit in outcome.hits]


def test_the_best_score_comes_first_and_scores_stay_with_the_places():
    outcome = rerank(lambda pairs: [-4.0, 2.0, 1.0])

    assert ids(outcome) == ["t1", "t2", "t0"]
    assert tuple(hit.score for hit in outcome.hits) == SCORES
    assert (outcome.applied, outcome.reason) == (True, "the cross encoder ordered the first 3")


def test_it_is_given_the_query_with_each_text():
    seen = []

    rerank(lambda pairs: seen.extend(pairs) or [1, 2, 3], query="merge\npdfs")

    assert seen == [("merge pdfs", "text 0"), ("merge pdfs", "text 1"), ("merge pdfs", "text 2")]


def test_an_array_is_as_good_as_a_list():
    assert ids(rerank(lambda pairs: np.array([0, 2, 1], dtype=np.float32))) == ["t1", "t2", "t0"]


def test_equal_scores_keep_their_order():
    assert ids(rerank(lambda pairs: [1, 2, 1])) == ["t1", "t0", "t2"]


def test_only_the_candidates_are_scored():
    outcome = rerank(lambda pairs: range(len(pairs)), candidates=2)

    assert ids(outcome) == ["t1", "t0", "t2"]


def test_it_does_not_hold_up_the_event_loop():
    threads = []

    rerank(lambda pairs: threads.append(threading.current_thread()) or [1, 2, 3])

    assert threads != [threading.main_thread()]


def raises(error):
    def score(pairs):
        raise error

    return score


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (lambda pairs: [1.0], "1 scores for 3 candidates"),
        (lambda pairs: [], "0 scores for 3 candidates"),
        (lambda pairs: [1.0, math.nan, 0.0], "a score is not a finite number"),
        (lambda pairs: [1.0, math.inf, 0.0], "a score is not a finite number"),
        (lambda pairs: None, "the scoring failed: TypeError"),
        (lambda pairs: ["high", "low", "low"], "the scoring failed: ValueError"),
        (lambda pairs: np.ones((3, 2)), "the scoring failed: TypeError"),
        (raises(MemoryError("too long")), "the scoring failed: MemoryError: too long"),
        (raises(StopIteration()), "the scoring failed: StopIteration"),
    ],
)
def test_scores_that_are_not_sound_leave_the_order(score, reason):
    outcome = rerank(score)

    assert ids(outcome) == ["t0", "t1", "t2"]
    assert not outcome.applied
    assert outcome.reason.startswith(reason)


@given(st.lists(st.floats(), max_size=5))
def test_whatever_scores_come_back_the_hits_are_those_that_went_in(scores):
    outcome = rerank(lambda pairs: scores)

    assert sorted(ids(outcome)) == ["t0", "t1", "t2"]
    assert outcome.applied == (len(scores) == 3 and all(map(math.isfinite, scores)))
