"""The ranking of one search: it merges channels into one order and explains every score."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Contribution, Explanation, Hit, Query, linear_fusion, reciprocal_rank_fusion
from toolrank._ranking import Ranker, usage_prior
from toolrank.errors import RankingArgumentError

WORDS = {"bm25": 1.0}
BOTH = {"bm25": 1.0, "vector": 1.0}


class Rows:
    """Candidates with the same lists for each query, or with those of its text."""

    def __init__(self, *, words=None, near=None, covered=None, everything=None):
        self.words, self.near = words or {}, near or {}
        self.covered, self.unfiltered = covered, everything
        self.lacks_vectors = covered is not None
        self.depths = []

    def lexical(self, query, *, depth):
        return self.found(self.words.get(query, {}), depth)

    def nearest(self, vector, *, depth, then=()):
        return self.found(self.near.get(vector, {}), depth)

    def with_vectors(self, ids):
        return self.covered & set(ids)

    def found(self, scores, depth):
        self.depths.append(depth)
        return [Hit(*each) for each in scores.items()][:depth]


def rank(rows, *, weights=WORDS, subqueries=(), depth=50, limit=None, text="any", **options):
    query = Query(text, "any", tuple(Query(each, each) for each in subqueries))
    asked = {name: options.pop(name, {}) for name in ("named", "usage", "deprecated")}
    defaults = {"fuse": linear_fusion, "subquery_share": 0.3, "group": None, "group_weight": 0.3}
    ranker = Ranker(**defaults | {"name": None} | options)
    ranking = ranker.rank(rows, query, weights, **asked, depth=depth, limit=limit)
    return ranking.hits(ranking.ids)


def scores(hits):
    return {hit.id: hit.score for hit in hits}


def ids(hits):
    return [hit.id for hit in hits]


def words(**scores):
    return Rows(words={"any": scores})


def test_weights_decide_each_channels_influence():
    rows = Rows(words={"any": {"a": 1.0, "b": 0.5}}, near={"any": {"b": 1.0, "a": 0.5}})
    assert ids(rank(rows, weights={"bm25": 2.0, "vector": 1.0})) == ["a", "b"]
    assert ids(rank(rows, weights={"bm25": 1.0, "vector": 2.0})) == ["b", "a"]
    assert rank(rows, weights={}) == []


def test_ties_are_broken_by_id():
    rows = Rows(words={"any": {"b": 1.0}}, near={"any": {"a": 1.0}})
    assert ids(rank(rows, weights=BOTH, fuse=reciprocal_rank_fusion)) == ["a", "b"]


@pytest.mark.parametrize(("depth", "asked"), [(5, [100, 50, 50]), (120, [120, 50, 50])])
def test_50_candidates_are_retrieved_for_each_subquery(depth, asked):
    rows = words(a=1.0)
    rank(rows, subqueries=["one", "two"], depth=depth)
    assert rows.depths == asked


def test_a_hit_lists_each_channels_contribution():
    rows = Rows(words={"any": {"a": 7.0, "b": 1.0}}, near={"any": {"b": 0.2}})
    by_id = {hit.id: hit.contributions for hit in rank(rows, weights=BOTH)}
    first = Contribution("bm25", 1, 7.0, background=1.0, rivals=1.0)
    second = Contribution("bm25", 2, 1.0, background=1.0, rivals=1.0)
    assert by_id == {"a": (first,), "b": (second, Contribution("vector", 1, 0.2))}
    assert (first.strength, second.strength) == (0.015 * 6, 0.0)


@pytest.mark.parametrize(
    ("count", "background"), [(1, 0), (2, 98), (10, 90), (11, 89), (40, 74.5), (60, 69.5)]
)
def test_the_background_of_a_list_is_the_mean_of_its_ranks_11_to_50(count, background):
    first, *_ = rank(words(**{f"{n:02}": 100.0 - n for n in range(1, count + 1)}))
    assert first.contributions[0].background == pytest.approx(background)


@pytest.mark.parametrize(
    ("found", "rivals"),
    [
        (["a1", "a2", "b1", "c1", "b2", "c2", "d1", "d2"], (6 + 5 + 4 + 3 + 2) / 5),
        (["a1", "a2", "b1", "a3", "b2"], (6 + 4) / 2),
        (["a1", "a2", "a3"], 6),
    ],
    ids=["of more than five", "of two", "none: the background"],
)
def test_the_rivals_of_a_hit_are_the_first_five_of_other_groups(found, rivals):
    rows = words(**{id_: 8.0 - n for n, id_ in enumerate(found)})
    first, *_ = rank(rows, group=lambda id_: id_[0])
    assert first.contributions[0].rivals == pytest.approx(rivals)


def test_vectors_are_compared_with_the_unfiltered_list():
    everything = Rows(near={"any": {"a": 0.9, "b": 0.7, "c": 0.5}})
    rows = Rows(near={"any": {"a": 0.9}}, everything=everything)
    (hit,) = rank(rows, weights={"vector": 1.0}, group=str)
    assert hit.contributions[0].rivals == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("near", "of_a"),
    [({"b": 0.5, "c": 0.2}, 4.0 + 0.2), ({}, 4.0)],
    ids=["the last score", "an empty list has none"],
)
def test_a_row_that_the_vectors_do_not_list_gets_their_last_score(near, of_a):
    rows = Rows(words={"any": {"a": 4.0}}, near={"any": near})
    found = rank(rows, weights=BOTH, fuse=partial(linear_fusion, units={}))
    assert scores(found)["a"] == pytest.approx(of_a / (4.0 + max([0, *near.values()])))


def test_a_truncated_list_of_words_gives_its_last_score_too():
    many = {f"{n:03}": 200.0 - n for n in range(100)}
    rows = Rows(words={"any": many}, near={"any": {"other": 1.0}})
    found = rank(rows, weights=BOTH, fuse=linear_fusion)
    assert scores(found)["other"] == pytest.approx((101 / 200 + 1) / 2)


def test_a_row_without_a_vector_is_judged_by_its_words():
    """Its share by meaning is its share by words, and its explanation says so."""
    rows = Rows(
        words={"any": {"a": 4.0, "b": 2.0, "c": 1.0}, "one": {"e": 1.0}},
        near={"any": {"c": 0.5, "d": 0.1}},
        covered={"a"},
    )
    found = rank(rows, weights=BOTH, fuse=partial(linear_fusion, units={"bm25": 0.1}))
    most = 0.4 + 0.5
    # a is known to be no closer than the last; b has half of the best score by words, so it is
    # placed halfway from 0.1 to 0.5.
    assert scores(found) == pytest.approx(
        {"a": 0.5 / most, "b": 0.5 / most, "c": 0.6 / most, "d": 0.1 / most}
    )
    told = {hit.id: (hit.explanation.missing, len(hit.contributions)) for hit in found}
    assert told == {"a": ((), 1), "b": (("vector",), 1), "c": ((), 2), "d": ((), 1)}
    of_subquery = rank(rows, weights=BOTH, subqueries=["one"])
    assert {hit.id for hit in of_subquery if hit.explanation.missing} == {"b", "e"}


SUBQUERIES = {"any": {"a": 4.0, "b": 3.0, "c": 1.0}, "one": {"b": 2.0, "d": 1.0}, "two": {"c": 8.0}}


def test_a_subquery_raises_the_scores_of_its_answers_by_its_share():
    found = rank(Rows(words=SUBQUERIES), subqueries=["one", "two"], subquery_share=0.4)
    expected = {"b": 0.6 * 0.75 + 0.4, "a": 0.6, "c": 0.6 * 0.25 + 0.4, "d": 0.4 * 0.5}
    assert scores(found) == pytest.approx(expected)
    assert {hit.id: hit.explanation for hit in found} == {
        "b": Explanation(0.75, pytest.approx(expected["b"]), 0, 1.0),
        "a": Explanation(1.0, pytest.approx(expected["a"]), 0, 0.0),
        "c": Explanation(0.25, pytest.approx(expected["c"]), 1, 1.0),
        "d": Explanation(0.0, pytest.approx(expected["d"]), 0, 0.5),
    }
    b, a, c, d = (
        [(it.rank, it.score) for it in hit.subquery_contributions]
        for hit in sorted(found, key=lambda hit: "bacd".index(hit.id))
    )
    assert (b, a, c, d) == ([(1, 2.0)], [], [(1, 8.0)], [(2, 1.0)])


def test_subqueries_that_find_nothing_or_have_no_share_are_ignored():
    rows = Rows(words={"any": {"a": 4.0, "b": 2.0}, "one": {}, "two": {"b": 1.0}})
    for found in (
        rank(rows, subqueries=["one"]),
        rank(rows, subqueries=["two"], subquery_share=0.0),
    ):
        assert scores(found) == {"a": 1.0, "b": 0.5}
        assert found[0].explanation == Explanation(1.0, 1.0)
    assert rows.depths == [100, 50, 100]


GROUPED = {"x:a": 4.0, "y:b": 3.0, "x:c": 2.0, "z:d": 1.0}


def test_the_best_hit_of_a_group_raises_the_scores_of_the_others():
    found = rank(words(**GROUPED), group=lambda id_: id_.partition(":")[0], group_weight=0.5)
    assert scores(found) == pytest.approx(
        {"x:a": 1.0, "x:c": (0.5 + 0.5 * 1.0) / 1.5, "y:b": 0.75, "z:d": 0.25}
    )
    best = {hit.id: hit.explanation.group for hit in found}
    assert best == {"x:a": 1.0, "y:b": 0.75, "x:c": 1.0, "z:d": 0.25}


def test_scores_raised_above_1_by_usage_are_rescaled():
    found = rank(words(**GROUPED), usage={"x:a": (10, 0), "y:b": (0, 10), "gone": (5, 5)})
    up, down = usage_prior(10, 0), usage_prior(0, 10)
    assert scores(found) == pytest.approx(
        {"x:a": 1.0, "y:b": 0.75 * down / up, "x:c": 0.5 / up, "z:d": 0.25 / up}
    )
    assert {hit.explanation.usage for hit in found} == {up, down, 1.0}


@pytest.mark.parametrize(
    ("successes", "failures", "factor"),
    [
        (0, 0, 1.0),
        (1, 0, 1 + 0.1 * (2 * 2 / 3 - 1) * 1 / 11),
        (10, 0, 1 + 0.1 * (2 * 11 / 12 - 1) * 10 / 20),
        (0, 10, 1 - 0.1 * (2 * 11 / 12 - 1) * 10 / 20),
        (9, 1, 1 + 0.1 * (2 * 10 / 12 - 1) * 10 / 20),
        (50, 50, 1.0),
    ],
)
def test_the_effect_of_usage_is_the_smoothed_success_rate_weighted_by_outcomes(
    successes, failures, factor
):
    assert usage_prior(successes, failures) == pytest.approx(factor)


@given(successes=st.integers(0, 10**9), failures=st.integers(0, 10**9))
def test_the_effect_of_usage_is_bounded_and_separates_good_from_bad(successes, failures):
    factor = usage_prior(successes, failures)
    assert 0.9 <= factor <= 1.1
    assert (factor > 1) == (successes > failures)
    assert (factor < 1) == (successes < failures)
    assert factor <= usage_prior(successes + 1, failures) + 1e-15


def test_a_count_of_outcomes_below_zero_is_refused():
    with pytest.raises(RankingArgumentError, match="usage: -1"):
        rank(words(a=1.0), usage={"a": (3, -1)})


def test_a_name_with_a_different_verb_loses_a_tenth_of_its_score():
    rows = Rows(words={"open an issue": {"get_issue": 1.0, "create_issue": 0.95}})
    found = rank(rows, text="open an issue", name=str)
    assert [(hit.id, hit.explanation.verb) for hit in found] == [
        ("create_issue", 1.0),
        ("get_issue", 0.9),
    ]
    assert scores(found) == pytest.approx({"create_issue": 0.95, "get_issue": 0.9})
    several = rank(rows, text="open an issue", name=str, subqueries=["open an issue"])
    assert {hit.explanation.verb for hit in several} == {1.0}


def test_named_rows_come_first_with_score_1_the_surest_and_then_the_best_first():
    named = {"z:d": 0.5, "nowhere": 1.0, "y:b": 0.5}
    found = rank(words(**GROUPED), named=named, usage={"z:d": (0, 9)})
    assert [(hit.id, hit.score) for hit in found] == [
        ("nowhere", 1.0),
        ("y:b", 1.0),
        ("z:d", 1.0),
        ("x:a", 1.0),
        ("x:c", 0.5),
    ]
    assert [hit.explanation.pinned for hit in found] == [True, True, True, False, False]
    assert [len(hit.contributions) for hit in found] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("replacements", "named", "order"),
    [
        ((), {}, ["y:b", "x:a", "x:c", "z:d"]),
        (("z:d",), {}, ["y:b", "x:c", "z:d", "x:a"]),
        (("gone",), {}, ["y:b", "x:a", "x:c", "z:d"]),
        ((), {"x:a": 1.0}, ["x:a", "y:b", "x:c", "z:d"]),
    ],
    ids=["lower", "below its replacement", "a replacement that is not found", "named as written"],
)
def test_a_deprecated_row_has_three_quarters_of_its_score(replacements, named, order):
    rows = Rows(words={"use a": GROUPED | {"y:b": 3.1}})
    found = rank(
        rows,
        text="use a",
        named=named,
        deprecated={"x:a": replacements},
        name=lambda id_: id_.partition(":")[2],
    )
    assert ids(found) == order
    expected = 1.0 if named else min([0.75, *(0.25 for it in replacements if it == "z:d")])
    assert scores(found)["x:a"] == pytest.approx(expected)


def test_a_score_follows_from_its_explanation():
    rows = Rows(words=SUBQUERIES, near={"any": {"d": 0.4, "a": 0.3}})
    found = rank(
        rows,
        weights=BOTH,
        subqueries=["one", "two"],
        fuse=partial(linear_fusion, units={"bm25": 0.03}),
        group=lambda id_: "ab" if id_ in "ab" else id_,
        usage={"a": (0, 5), "b": (20, 1)},
    )
    used = {}
    for hit in found:
        why = hit.explanation
        merged = 0.7 * why.request + 0.3 * why.subquery_score
        assert why.merged == pytest.approx(merged)
        used[hit.id] = (merged + 0.3 * why.group) / 1.3 * why.usage
    most = max(1.0, *used.values())
    assert scores(found) == pytest.approx({id_: score / most for id_, score in used.items()})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *[("subquery_share", -0.1), ("subquery_share", math.nan)],
        *[("group_weight", -1.0), ("group_weight", math.inf)],
    ],
)
def test_shares_are_between_0_and_1_and_group_weights_finite(argument, value):
    with pytest.raises(RankingArgumentError) as caught:
        rank(words(), **{argument: value})
    assert caught.value.argument == argument


lists = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e9, 1e9), max_size=6).map(
    lambda found: dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
)
answers = st.fixed_dictionaries({"any": lists, "one": lists, "two": lists})


@given(
    rows=st.builds(Rows, words=answers, near=answers, covered=st.none() | st.sets(st.just("a"))),
    weight=st.sampled_from([0.5, 2.0]),
    fuse=st.sampled_from(
        [reciprocal_rank_fusion, linear_fusion, partial(linear_fusion, units={"bm25": 0.03})]
    ),
    usage=st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 9), st.just(3))),
    named=st.dictionaries(st.sampled_from("abcxyz"), st.sampled_from([0.5, 1.0])),
    limit=st.integers(1, 9),
)
def test_any_lists_are_ranked_deterministically_with_scores_from_0_to_1(
    rows, weight, fuse, usage, named, limit
):
    options = {
        "subqueries": ["one", "two"],
        "fuse": fuse,
        "group": lambda id_: id_ < "c",
        "usage": usage,
        "named": named,
    }
    weights = {"bm25": 1.0, "vector": weight}
    found = rank(rows, weights=weights, **options)
    assert {*ids(found)[: len(named)]} == named.keys()
    order = [(-hit.score, hit.id) for hit in found[len(named) :]]
    assert order == sorted(order)
    assert len(set(ids(found))) == len(found)
    assert all(0.0 <= hit.score <= 1.0 for hit in found)
    turned = rank(rows, weights=dict(reversed(weights.items())), **options)
    assert [(hit.id, hit.score) for hit in turned] == [(hit.id, hit.score) for hit in found]
    some = rank(rows, weights=weights, **options, limit=limit)
    assert ids(some)[:limit] == ids(found)[:limit]
