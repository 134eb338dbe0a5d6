"""A contract kit: run `check_candidates` over your own implementation of `Candidates`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toolrank._query import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from toolrank._records import Hit
    from toolrank.protocols import Candidates

    _Retrieve: TypeAlias = Callable[[int], Sequence[Hit]]

__all__ = ["check_candidates"]

_DEPTH = 1_000
_DEPTHS = (1, 2, 3, 5, 10, 30, 100)
_ODD_TEXTS = (
    "",
    " \t\n",
    "?!",
    'say "hi',
    "C++ foo:bar -x* ^y",
    "NEAR(a b) AND OR NOT",
    "it's; DROP TABLE x --",
    "a\0b",
    "\ud800",
    "名前 สวัสดี 🛠 e\u0301",
    "word " * 20_000,
    "x" * 100_000,
)


def check_candidates(candidates: Candidates, queries: Iterable[Query]) -> None:
    """Check that candidates are what the protocol asks.

    Args:
        candidates: The candidates; their source must not change during the check.
        queries: Queries that find something, if possible several rows each; with a vector, if there
            are vectors.

    Raises:
        AssertionError: They are not; the message says what is wrong.
    """
    asked = list(queries)
    found = [_check(*each) for query in asked for each in _each(candidates, query)]
    assert any(found), "none of the queries finds anything: without one nothing is shown"
    for text in _ODD_TEXTS:
        for each in _each(candidates, Query(text)):
            _check(*each)
        candidates.corrections(text)
        candidates.coverage(text, ["no such id"])
        assert math.isfinite(candidates.scale(text)), f"a scale is not finite ({text[:40]!r})"
    for query in asked:
        ids = [hit.id for hit in candidates.lexical(query.text, depth=10)]
        shares = candidates.coverage(query.text, ids)
        assert all(0 <= share <= 1 for share in shares.values()), "a coverage is not in [0, 1]"
        assert {*candidates.existing(ids)} <= {*ids}, "ids that were not asked for exist"
        if query.vector is not None:
            assert candidates.nearest([0.0] * len(query.vector), depth=5) == [], (
                "a vector of zeros has no direction, and finds nothing"
            )
    assert candidates.state() == candidates.state(), "the state is not equal to itself"


def _each(candidates: Candidates, query: Query) -> Iterator[tuple[_Retrieve, str]]:
    text, vector = query.text, query.vector
    about = repr(text[:40])
    yield lambda depth: candidates.lexical(text, depth=depth), f"lexical, {about}"
    yield lambda depth: candidates.fuzzy(text, depth=depth), f"fuzzy, {about}"
    yield lambda depth: candidates.named(text)[:depth], f"named, {about}"
    if vector is not None:
        yield lambda depth: candidates.nearest(vector, depth=depth), f"nearest, {about}"


def _check(retrieve: _Retrieve, about: str) -> Sequence[Hit]:
    """Check what holds for every list."""
    try:
        lists = {depth: list(retrieve(depth)) for depth in (_DEPTH, *_DEPTHS)}
        again = list(retrieve(_DEPTH))
    except Exception as error:
        raise AssertionError(f"no query raises ({about}): {error!r}") from error
    longest = lists[_DEPTH]
    assert again == longest, f"the same query finds the same again ({about})"
    assert all(math.isfinite(hit.score) for hit in longest), f"a score is not finite ({about})"
    ids = [hit.id for hit in longest]
    assert len(set(ids)) == len(ids), f"an id must not be repeated ({about})"
    costs = [-hit.score for hit in longest]
    assert costs == sorted(costs), f"the best hits must come first ({about})"
    order = [(-hit.score, hit.id) for hit in longest]
    assert order == sorted(order), f"equal scores come in the order of ids ({about})"
    for depth, hits in lists.items():
        assert len(hits) <= depth, f"there are at most as many hits as asked for ({about})"
        expected = longest[:depth]
        # Which of several equal hits is cut off is the source's choice.
        above = [hit for hit in expected if hit.score > expected[-1].score]
        assert hits[: len(above)] == above, f"a shorter list begins a longer one ({about})"
        assert [hit.score for hit in hits] == [hit.score for hit in expected], (
            f"a shorter list begins a longer one ({about})"
        )
    return longest
