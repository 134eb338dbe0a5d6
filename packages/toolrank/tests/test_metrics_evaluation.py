"""Evaluation over many queries: means, confidence intervals, and comparisons."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Hit
from toolrank.errors import RankingArgumentError
from toolrank.metrics import Evaluation, Interval, evaluate

RUN = {"q1": ["a", "b"], "q2": ["x", "c"], "q4": ["a"]}
QRELS = {"q1": {"a"}, "q2": {"c": 2.0}, "q3": ["d"]}

values = st.dictionaries(
    st.text(max_size=3), st.floats(min_value=0, max_value=1), min_size=1, max_size=20
)


def evaluation(**by_query):
    return Evaluation(values={"recall@5": by_query})


def test_each_query_has_a_value_for_each_measure():
    assert evaluate(RUN, QRELS, ["mrr", "ndcg@5"]).values == {
        "mrr": {"q1": 1.0, "q2": 1 / 2, "q3": 0.0},
        "ndcg@5": {"q1": 1.0, "q2": pytest.approx(1 / log2(3)), "q3": 0.0},
    }


def test_the_mean_is_over_the_queries_of_the_qrels():
    # q3 is not in the run and scores 0; q4 has no judgements and is left out.
    assert evaluate(RUN, QRELS, ["mrr"]).mean("mrr") == (1 + 1 / 2 + 0) / 3


def test_asking_for_an_unevaluated_measure_lists_the_evaluated_ones():
    evaluated = evaluate(RUN, QRELS, ["recall@5", "mrr"])
    with pytest.raises(RankingArgumentError, match=r"recall@10 .* there are recall@5, mrr$"):
        evaluated.mean("recall@10")


def test_an_evaluation_needs_a_measure_and_a_query():
    with pytest.raises(RankingArgumentError) as raised:
        evaluate(RUN, QRELS, [])
    assert raised.value.argument == "measures"
    with pytest.raises(RankingArgumentError) as raised:
        evaluate(RUN, {}, ["mrr"])
    assert raised.value.argument == "qrels"


def test_a_query_without_relevant_ids_is_named():
    with pytest.raises(RankingArgumentError, match="'q9' has no relevant ids") as raised:
        evaluate(RUN, {**QRELS, "q9": []}, ["mrr"])
    assert raised.value.argument == "qrels"


def test_hits_instead_of_ids_are_refused_with_a_hint():
    with pytest.raises(RankingArgumentError, match=r"'q1': Hit\(.* is not an id") as raised:
        evaluate({"q1": [Hit(id="a", score=1.0)]}, QRELS, ["mrr"])
    assert raised.value.argument == "run"


def test_the_interval_is_that_of_bootstrap_means():
    # With two queries that score 0 and 1, a sample's mean is 0, 1/2 or 1, at odds of 1 : 2 : 1.
    evaluated = evaluation(a=0.0, b=1.0)
    assert evaluated.confidence_interval("recall@5", level=0.95) == Interval(0.5, 0.0, 1.0)
    assert evaluated.confidence_interval("recall@5", level=0.3) == Interval(0.5, 0.5, 0.5)


def test_with_many_queries_the_interval_is_close_to_the_normal_one():
    half = {f"q{number}": float(number % 2) for number in range(400)}
    interval = evaluation(**half).confidence_interval("recall@5", resamples=2000)
    error = (0.5 * 0.5 / 400) ** 0.5
    assert interval.low == pytest.approx(0.5 - 1.96 * error, abs=0.006)
    assert interval.high == pytest.approx(0.5 + 1.96 * error, abs=0.006)


@given(values, st.integers())
def test_the_same_seed_gives_the_same_interval_for_any_order_of_queries(by_query, seed):
    backwards = dict(reversed(by_query.items()))
    intervals = [
        Evaluation(values={"mrr": each}).confidence_interval("mrr", resamples=20, seed=seed)
        for each in (by_query, by_query, backwards)
    ]
    assert intervals[0] == intervals[1] == intervals[2]


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1])
def test_a_level_lies_between_zero_and_one(level):
    with pytest.raises(RankingArgumentError) as raised:
        evaluation(a=1.0).confidence_interval("recall@5", level=level)
    assert raised.value.argument == "level"


def test_at_least_one_sample_is_drawn():
    with pytest.raises(RankingArgumentError) as raised:
        evaluation(a=1.0).confidence_interval("recall@5", resamples=0)
    assert raised.value.argument == "resamples"


def test_a_difference_is_taken_query_by_query():
    ours, theirs = evaluation(a=0.25, b=0.5, c=1.0), evaluation(a=0.0, b=0.25, c=0.75)
    # Each query gained 1/4, so the interval is a point, although the values themselves vary widely.
    assert ours.difference(theirs, "recall@5") == Interval(0.25, 0.25, 0.25)


@given(values, st.data())
def test_swapping_the_sides_negates_the_difference(by_query, data):
    others = {query: data.draw(st.floats(min_value=0, max_value=1)) for query in by_query}
    ours, theirs = Evaluation(values={"mrr": by_query}), Evaluation(values={"mrr": others})
    gain = ours.difference(theirs, "mrr", resamples=50)
    loss = theirs.difference(ours, "mrr", resamples=50)
    assert gain.mean == pytest.approx(-loss.mean)
    assert gain.low == pytest.approx(-loss.high)
    assert gain.high == pytest.approx(-loss.low)


def test_the_interval_of_a_difference_has_the_requested_level():
    ours = evaluation(a=1.0, b=0.0, c=0.5, d=0.25)
    theirs = evaluation(a=0.0, b=0.5, c=0.5, d=1.0)
    differences = Evaluation(values={"mrr": {"a": 1.0, "b": -0.5, "c": 0.0, "d": -0.75}})
    asked = {"level": 0.8, "resamples": 60, "seed": 7}
    expected = differences.confidence_interval("mrr", **asked)
    assert ours.difference(theirs, "recall@5", **asked) == expected
    assert expected.mean == -0.0625


def test_only_evaluations_of_the_same_queries_can_be_compared():
    with pytest.raises(RankingArgumentError, match=r"2 queries .* 'b' for one") as raised:
        evaluation(a=1.0, b=1.0).difference(evaluation(a=1.0, c=1.0), "recall@5")
    assert raised.value.argument == "other"
