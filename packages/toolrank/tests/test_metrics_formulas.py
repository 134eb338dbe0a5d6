"""The measures of one ranking: the assertions are the arithmetic."""

from math import inf, log2, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import RankingArgumentError
from toolrank.metrics import (
    Measure,
    completeness,
    hit,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

FORMULAS = [recall, precision, hit, completeness, reciprocal_rank, ndcg]

every_formula = pytest.mark.parametrize("formula", FORMULAS)

ids = st.sampled_from("abcdefgh")
rankings = st.lists(ids)
gains = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)
judgements = st.one_of(
    st.sets(ids, min_size=1),
    st.dictionaries(ids, gains, min_size=1),
)
places = st.integers(min_value=1, max_value=12)


def test_recall_is_the_share_of_the_relevant_that_was_found():
    assert recall(["a", "x", "b", "c"], {"a", "b", "c"}, 3) == 2 / 3
    assert recall(["a", "x", "b", "c"], {"a", "b", "c"}, 10) == 1.0
    assert recall(["x"], {"a", "b", "c"}, 3) == 0.0


def test_precision_is_the_share_of_the_places_that_hold_something_relevant():
    assert precision(["a", "x", "b", "y"], {"a", "b", "c"}, 4) == 2 / 4
    assert precision(["a", "x", "b", "y"], {"a", "b", "c"}, 1) == 1.0


def test_precision_counts_the_places_that_a_short_list_leaves_empty():
    assert precision(["a", "b"], {"a", "b"}, 5) == 2 / 5


def test_hit_asks_whether_anything_relevant_was_found():
    assert hit(["x", "y", "a"], {"a", "b"}, 3) == 1.0
    assert hit(["x", "y", "a"], {"a", "b"}, 2) == 0.0


def test_completeness_asks_whether_everything_relevant_was_found():
    assert completeness(["a", "x", "b"], {"a", "b"}, 3) == 1.0
    assert completeness(["a", "x", "b"], {"a", "b"}, 2) == 0.0


def test_the_reciprocal_rank_is_that_of_the_first_relevant_id():
    assert reciprocal_rank(["x", "y", "a", "b"], {"a", "b"}) == 1 / 3
    assert reciprocal_rank(["x", "y"], {"a", "b"}) == 0.0


def test_the_reciprocal_rank_can_be_cut_at_k():
    assert reciprocal_rank(["x", "y", "a"], {"a"}, 3) == 1 / 3
    assert reciprocal_rank(["x", "y", "a"], {"a"}, 2) == 0.0


def test_ndcg_discounts_each_gain_by_the_logarithm_of_its_rank():
    found = 2 / log2(1 + 1) + 3 / log2(3 + 1)
    best = 3 / log2(1 + 1) + 2 / log2(2 + 1) + 1 / log2(3 + 1)
    assert ndcg(["b", "x", "a"], {"a": 3, "b": 2, "c": 1}, 3) == pytest.approx(found / best)


def test_ndcg_of_equal_gains_counts_ranks_alone():
    found = 1 / log2(2 + 1)
    best = 1 / log2(1 + 1) + 1 / log2(2 + 1)
    assert ndcg(["x", "a", "y", "b"], {"a", "b"}, 3) == pytest.approx(found / best)


@pytest.mark.parametrize("largest", [1e-300, 1.0, 1.7e308])
def test_ndcg_knows_proportions_only(largest):
    gains = {"a": largest, "b": largest / 2, "c": largest / 4}
    assert ndcg(["b", "a", "c"], gains, 3) == pytest.approx(
        ndcg(["b", "a", "c"], {"a": 4, "b": 2, "c": 1}, 3)
    )


@every_formula
def test_an_id_listed_twice_counts_once_at_its_first_rank(formula):
    repeated, once = ["x", "a", "a", "x", "b"], ["x", "a", "b"]
    for k in range(1, 6):
        assert formula(repeated, {"a", "b", "c"}, k) == formula(once, {"a", "b", "c"}, k)


@every_formula
def test_a_gain_of_zero_or_less_makes_nothing_relevant(formula):
    ranked = ["z", "n", "a"]
    for k in (1, 2, 3):
        assert formula(ranked, {"a": 1, "z": 0, "n": -2}, k) == formula(ranked, {"a": 1}, k)


@every_formula
def test_nothing_found_is_worth_nothing(formula):
    assert formula([], {"a"}, 5) == 0.0


@every_formula
@pytest.mark.parametrize("relevant", [[], set(), {}, {"a": 0}])
def test_without_relevant_ids_there_is_nothing_to_measure(formula, relevant):
    with pytest.raises(RankingArgumentError, match="has no relevant ids") as raised:
        formula(["a"], relevant, 5)
    assert raised.value.argument == "relevant"


@every_formula
def test_there_is_no_place_before_the_first(formula):
    with pytest.raises(RankingArgumentError, match="0 is below 1") as raised:
        formula(["a"], {"a"}, 0)
    assert raised.value.argument == "k"


@pytest.mark.parametrize("gain", [nan, inf, -inf])
def test_a_gain_is_a_finite_number(gain):
    with pytest.raises(RankingArgumentError, match="the gain of 'b' is") as raised:
        ndcg(["a"], {"a": 1, "b": gain}, 5)
    assert raised.value.argument == "relevant"


@every_formula
def test_a_string_is_not_taken_for_the_list_of_its_letters(formula):
    with pytest.raises(RankingArgumentError, match="'abc' is one string") as raised:
        formula("abc", {"a"}, 5)
    assert raised.value.argument == "ranked"
    with pytest.raises(RankingArgumentError, match="'abc' is one string") as raised:
        formula(["a"], "abc", 5)
    assert raised.value.argument == "relevant"


@every_formula
def test_what_is_not_an_id_is_refused_and_not_counted_as_a_miss(formula):
    with pytest.raises(RankingArgumentError, match="1 is not an id"):
        formula(["a", 1], {"a"}, 5)
    with pytest.raises(RankingArgumentError, match="None is not an id"):
        formula(["a"], {None: 1.0}, 5)


@given(ranked=rankings, relevant=judgements, k=places)
def test_every_value_lies_between_zero_and_one(ranked, relevant, k):
    for formula in FORMULAS:
        assert 0.0 <= formula(ranked, relevant, k) <= 1.0


@given(ranked=rankings, relevant=judgements, k=places)
def test_looking_at_one_more_place_loses_nothing(ranked, relevant, k):
    for formula in (recall, hit, completeness, reciprocal_rank):
        assert formula(ranked, relevant, k) <= formula(ranked, relevant, k + 1)


@given(ranked=rankings, relevant=judgements, k=places, data=st.data())
def test_the_order_within_the_first_k_is_of_no_account_to_sets(ranked, relevant, k, data):
    distinct = list(dict.fromkeys(ranked))
    shuffled = data.draw(st.permutations(distinct[:k])) + distinct[k:]
    for formula in (recall, precision, hit, completeness):
        assert formula(shuffled, relevant, k) == formula(ranked, relevant, k)


@given(ranked=rankings, relevant=st.dictionaries(ids, gains, min_size=1), k=places, data=st.data())
def test_the_order_of_the_judgements_is_of_no_account(ranked, relevant, k, data):
    shuffled = dict(data.draw(st.permutations(list(relevant.items()))))
    for formula in FORMULAS:
        assert formula(ranked, shuffled, k) == formula(ranked, relevant, k)


@given(relevant=st.dictionaries(ids, gains, min_size=1), k=places)
def test_no_ranking_beats_the_one_by_gain(relevant, k):
    best = sorted(relevant, key=relevant.__getitem__, reverse=True)
    assert ndcg(best, relevant, k) == 1.0


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("recall@2", recall),
        ("precision@2", precision),
        ("hit@2", hit),
        ("ndcg@2", ndcg),
        ("completeness@2", completeness),
        ("mrr@2", reciprocal_rank),
    ],
)
@given(ranked=rankings, relevant=judgements)
def test_a_measure_gives_what_its_formula_gives(text, formula, ranked, relevant):
    assert Measure.parse(text)(ranked, relevant) == formula(ranked, relevant, 2)


def test_mrr_without_a_k_looks_at_every_place():
    assert Measure.parse("mrr")([*"xyzuvwst", "a"], {"a"}) == 1 / 9


@given(
    st.one_of(
        st.builds(
            Measure,
            st.sampled_from(["recall", "precision", "hit", "ndcg", "completeness", "mrr"]),
            st.integers(min_value=1, max_value=999_999_999),
        ),
        st.just(Measure("mrr")),
    )
)
def test_a_measure_is_written_as_it_is_read(measure):
    assert Measure.parse(str(measure)) == measure


@pytest.mark.parametrize(
    "text",
    [
        *["", "accuracy", "map@5", "NDCG@10", "recall@", "recall@0", "recall@-1", "recall@05"],
        *["recall@1.5", "recall@5@5", "recall@ 5", "recall@5 ", "mrr@٣", "recall@9999999999"],
    ],
)
def test_an_unknown_measure_is_answered_with_those_that_exist(text):
    with pytest.raises(RankingArgumentError) as raised:
        Measure.parse(text)
    assert raised.value.argument == "measure"
    assert str(raised.value).endswith(
        "there are recall@k, precision@k, hit@k, ndcg@k, completeness@k, mrr@k, mrr, with k from 1"
    )


@pytest.mark.parametrize("name", ["recall", "precision", "hit", "ndcg", "completeness"])
def test_only_mrr_goes_without_a_k(name):
    with pytest.raises(RankingArgumentError, match=f"needs a k: {name}@10"):
        Measure.parse(name)


def test_a_measure_made_by_hand_is_checked_too():
    with pytest.raises(RankingArgumentError, match="no measure is called 'map'"):
        Measure("map", 5)
    with pytest.raises(RankingArgumentError, match="0 is below 1"):
        Measure("recall", 0)
