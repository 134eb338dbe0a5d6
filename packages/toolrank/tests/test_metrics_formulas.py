"""Edge cases of the measures of one ranking; test_metrics_agreement.py covers the usual values."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank.errors import RankingArgumentError
from toolrank.metrics import evaluate


def _formula(name):
    def value(ranked, relevant, k=None):
        measure = name if k is None else f"{name}@{k}"
        return evaluate({"q": ranked}, {"q": relevant}, [measure]).mean(measure)

    return value


FORMULAS = [
    recall := _formula("recall"),
    precision := _formula("precision"),
    hit := _formula("hit"),
    completeness := _formula("completeness"),
    reciprocal_rank := _formula("mrr"),
    ndcg := _formula("ndcg"),
]

every_formula = pytest.mark.parametrize("formula", FORMULAS)

ids = st.sampled_from("abcdefgh")
rankings = st.lists(ids)
gains = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)
judgements = st.one_of(
    st.sets(ids, min_size=1),
    st.dictionaries(ids, gains, min_size=1),
)
places = st.integers(min_value=1, max_value=12)


@every_formula
def test_an_id_listed_twice_counts_once_at_its_first_rank(formula):
    repeated, once = ["x", "a", "a", "x", "b"], ["x", "a", "b"]
    for k in range(1, 6):
        assert formula(repeated, {"a", "b", "c"}, k) == formula(once, {"a", "b", "c"}, k)


@every_formula
def test_an_id_with_a_gain_of_zero_or_less_is_not_relevant(formula):
    ranked = ["z", "n", "a"]
    for k in (1, 2, 3):
        assert formula(ranked, {"a": 1, "z": 0, "n": -2}, k) == formula(ranked, {"a": 1}, k)


@every_formula
@pytest.mark.parametrize("relevant", [[], set(), {}, {"a": 0}])
def test_a_query_without_relevant_ids_is_an_error(formula, relevant):
    with pytest.raises(RankingArgumentError, match="has no relevant ids") as raised:
        formula(["a"], relevant, 5)
    assert raised.value.argument == "qrels"


@pytest.mark.parametrize("gain", [nan, inf, -inf])
def test_a_gain_must_be_finite(gain):
    with pytest.raises(RankingArgumentError, match="the gain of 'b' is") as raised:
        ndcg(["a"], {"a": 1, "b": gain}, 5)
    assert raised.value.argument == "qrels"


@every_formula
def test_a_string_is_not_read_as_a_list_of_letters(formula):
    with pytest.raises(RankingArgumentError, match="'abc' is one string") as raised:
        formula("abc", {"a"}, 5)
    assert raised.value.argument == "run"
    with pytest.raises(RankingArgumentError, match="'abc' is one string") as raised:
        formula(["a"], "abc", 5)
    assert raised.value.argument == "qrels"


@every_formula
def test_a_value_that_is_not_an_id_is_refused(formula):
    with pytest.raises(RankingArgumentError, match="1 is not an id"):
        formula(["a", 1], {"a"}, 5)
    with pytest.raises(RankingArgumentError, match="None is not an id"):
        formula(["a"], {None: 1.0}, 5)


@given(ranked=rankings, relevant=judgements, k=places)
def test_every_value_is_between_0_and_1(ranked, relevant, k):
    for formula in FORMULAS:
        assert 0.0 <= formula(ranked, relevant, k) <= 1.0


@given(relevant=st.dictionaries(ids, gains, min_size=1), k=places)
def test_no_ranking_beats_the_one_sorted_by_gain(relevant, k):
    best = sorted(relevant, key=relevant.__getitem__, reverse=True)
    assert ndcg(best, relevant, k) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        *["", "accuracy", "map@5", "NDCG@10", "recall@", "recall@0", "recall@-1", "recall@05"],
        *["recall@1.5", "recall@5@5", "recall@ 5", "recall@5 ", "mrr@٣", "recall@9999999999"],
    ],
)
def test_an_unknown_measure_is_an_error_that_lists_known_ones(text):
    with pytest.raises(RankingArgumentError) as raised:
        _formula(text)(["a"], {"a"})
    assert raised.value.argument == "measure"
    assert str(raised.value).endswith(
        "there are recall@k, precision@k, hit@k, ndcg@k, completeness@k, mrr@k, mrr, with k from 1"
    )


@pytest.mark.parametrize("name", ["recall", "precision", "hit", "ndcg", "completeness"])
def test_only_mrr_can_be_used_without_k(name):
    with pytest.raises(RankingArgumentError, match=f"needs a k: {name}@10"):
        _formula(name)(["a"], {"a"})
