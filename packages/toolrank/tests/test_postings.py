"""Rows read from a table are cached, within limits, for any number of threads."""

import sys
from array import array
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy  # noqa: F401 - best_sums uses it only if it is imported
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import PostingsCache
from toolrank._postings import Posting, best_sums
from toolrank.errors import RankingArgumentError


def posting(rows):
    scores = [rows[row] for row in sorted(rows)]
    return Posting(rows=array("q", sorted(rows)), scores=array("d", scores), documents=len(rows))


POSTINGS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(-9, 30), st.integers(0, 8)).map(posting),
        st.sampled_from([1.0, 0.5, 0.0]),
    ),
    max_size=6,
)


def test_postings_of_recent_queries_are_not_read_again():
    postings, read = PostingsCache(), []

    def ask(text):
        return postings.recent(text, lambda: read.append(text) or text.upper())

    assert [ask(text) for text in "abab"] == ["A", "B", "A", "B"]
    assert read == ["a", "b"]
    for text in "abcdefghijklmnopqrstuvwxyz":
        ask(text)
    assert ask("a") == "A"
    assert read.count("a") == 2


def test_the_least_recently_used_terms_are_evicted_first():
    postings = PostingsCache(max_rows=2 * 132)
    for key in ("a", "b"):
        postings.put(key, posting(dict.fromkeys(range(100), 1.0)))
    postings.get("a")
    postings.put("c", posting(dict.fromkeys(range(100), 1.0)))
    assert [key for key in "abc" if postings.get(key)] == ["a", "c"]
    assert postings.rows == 2 * 132


def test_a_posting_larger_than_the_cache_is_not_kept():
    postings = PostingsCache(max_rows=0)
    postings.put("a", posting({1: 1.0}))
    assert postings.get("a") is None
    assert postings.rows == 0


def test_a_negative_bound_is_refused():
    with pytest.raises(RankingArgumentError, match="below zero") as caught:
        PostingsCache(max_rows=-1)
    assert caught.value.argument == "max_rows"


def test_threads_share_the_cache():
    postings = PostingsCache(max_rows=400)

    def work(seed):
        for step in range(500):
            key = (seed * step) % 17
            if postings.get(key) is None:
                postings.put(key, posting(dict.fromkeys(range(key), 1.0)))
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert 0 < postings.rows <= 400
    held = [found for key in range(17) if (found := postings.get(key))]
    assert postings.rows == sum(32 + len(found.rows) for found in held)


@given(
    POSTINGS,
    st.integers(1, 12),
    st.none() | st.frozensets(st.integers(-9, 30)),
    st.sampled_from([True, False]),
)
def test_the_best_sums_match_the_definition_with_and_without_numpy(
    weighted, depth, allowed, has_numpy
):
    sums = {}
    for each, weight in weighted:
        for row, score in zip(each.rows, each.scores, strict=True):
            if allowed is None or row in allowed:
                sums[row] = sums.get(row, 0.0) + weight * score
    # With these numbers, sums are exact in any order.
    last = sorted(sums.values(), reverse=True)[:depth]
    expected = {row: total for row, total in sums.items() if not last or total >= last[-1]}
    with patch.dict(sys.modules):
        if not has_numpy:
            sys.modules.pop("numpy", None)
        assert best_sums(weighted, depth=depth, allowed=allowed) == expected
