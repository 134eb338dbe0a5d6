"""A contract kit: run `check_retriever` over your own implementation of `Retriever`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from toolrank._records import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolrank._records import Hit
    from toolrank.protocols import Retriever

__all__ = ["check_retriever"]

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


def check_retriever(retriever: Retriever, queries: Iterable[Query]) -> None:
    """Check that a retriever does what the `Retriever` protocol asks.

    Args:
        retriever: The retriever; its source must not change during the check.
        queries: Queries that it has answers to, if possible with several hits each.

    Raises:
        AssertionError: It does not; the message says what is wrong.
    """
    assert retriever.name, "name is empty"
    asked = list(queries)
    answered = [query for query in asked if _check_answer(retriever, query)]
    assert answered, "none of the queries has an answer: without one nothing is shown"
    for query in answered:
        _check_depths(retriever, query)
        parts = replace(query, parts=(Query(text="another request"),))
        assert _retrieved(retriever, parts, _DEPTH) == _retrieved(retriever, query, _DEPTH), (
            f"the parts of a query are not the retriever's to look at ({_named(query)})"
        )
    nothing = Query(text="")
    assert _retrieved(retriever, nothing, _DEPTH) == [], (
        "a query with neither text nor vector has an empty list"
    )
    for text in _ODD_TEXTS:
        for vector in {None, *(query.vector and tuple(query.vector) for query in answered[:1])}:
            _check_answer(retriever, Query(text=text, vector=vector))
    for query in asked:
        _check_answer(retriever, replace(query, vector=None))


def _check_answer(retriever: Retriever, query: Query) -> list[Hit]:
    """Check what holds for every answer."""
    hits = _retrieved(retriever, query, _DEPTH)
    about = _named(query)
    assert all(math.isfinite(hit.score) for hit in hits), f"a score is not finite ({about})"
    ids = [hit.id for hit in hits]
    assert len(set(ids)) == len(ids), (
        f"an id must not be repeated ({about} gives {_repeated(ids)} again)"
    )
    order = [(-hit.score, hit.id) for hit in hits]
    assert [cost for cost, _ in order] == sorted(cost for cost, _ in order), (
        f"the best hits must come first ({about})"
    )
    assert order == sorted(order), f"equal scores come in the order of ids ({about})"
    assert _retrieved(retriever, query, _DEPTH) == hits, (
        f"the same query has the same answer again ({about})"
    )
    return hits


def _check_depths(retriever: Retriever, query: Query) -> None:
    """Check that a shorter answer is the beginning of a longer one."""
    longest = _retrieved(retriever, query, _DEPTH)
    for depth in _DEPTHS:
        hits = _retrieved(retriever, query, depth)
        about = f"{_named(query)} at depth {depth}"
        assert len(hits) <= depth, f"there are at most as many hits as asked for ({about})"
        expected = longest[:depth]
        assert [hit.score for hit in hits] == [hit.score for hit in expected], (
            f"a shorter answer is the beginning of a longer one ({about})"
        )
        # Which of several equal hits is cut off is the source's choice.
        above = [hit for hit in expected if hit.score > expected[-1].score]
        assert hits[: len(above)] == above, (
            f"a shorter answer is the beginning of a longer one ({about})"
        )


def _retrieved(retriever: Retriever, query: Query, depth: int) -> list[Hit]:
    try:
        return retriever.retrieve(query, depth=depth)
    except Exception as error:
        raise AssertionError(
            f"no query raises; {_named(query)} at depth {depth} raised {error!r}"
        ) from error


def _named(query: Query) -> str:
    about = f"the query {query.text[:40]!r}"
    return about if query.vector is not None else f"{about} without a vector"


def _repeated(ids: list[str]) -> str:
    return next(id_ for position, id_ in enumerate(ids) if id_ in ids[:position])
