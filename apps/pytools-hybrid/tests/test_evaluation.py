"""The configuration that an evaluation recommends."""

import re

import pytest
from pytools_hybrid import Settings
from pytools_hybrid.learn.evaluate import EvaluationQuery, configurations, unknown_gold
from pytools_hybrid.learn.figures import best, measure
from pytools_hybrid.search import SearchMode
from toolrank import Hit

QUERIES = [EvaluationQuery(id=f"q{n}", text=f"query {n}", gold=("right",)) for n in range(20)]


@pytest.fixture
def figures():
    """Return figures of all configurations, given the queries for which each finds its tool."""

    def make(**right):
        return [
            measure(
                configuration,
                QUERIES,
                {
                    query.id: [Hit(id="right" if n in found else "wrong", score=1.0)]
                    for n, query in enumerate(QUERIES)
                },
                recall_at=(1, 3),
                milliseconds=[1.0],
                degraded=0,
            )
            for configuration in configurations(Settings(), None)
            for found in [right.get(re.sub(r"\W+", "_", configuration.name).strip("_"), ())]
        ]

    return make


def test_the_settings_are_kept_if_a_better_mean_may_be_due_to_chance(figures):
    found = best(figures(hybrid={0, 1, 2}, bm25={2, 3, 4, 5}))

    assert found.chosen.configuration.name == "hybrid"
    assert found.other.configuration.name == "bm25"
    assert found.difference.mean == pytest.approx(-1 / 20)
    assert not found.is_beyond_chance
    assert str(found).startswith("Keep hybrid (ndcg@10 0.150): it is what searches use")
    assert "bm25 is 0.050 above it" in str(found)
    assert "may be due to chance" in str(found)


def test_a_change_is_recommended_if_it_is_significantly_better(figures):
    found = best(figures(hybrid={0, 1, 2}, hybrid_rrf=set(range(18))))

    assert found.chosen.configuration.name == "hybrid (rrf)"
    assert found.other.configuration.name == "hybrid"
    assert found.is_beyond_chance
    assert "select it with PYTOOLS_FUSION=rrf. It is 0.750 above hybrid" in str(found)


def test_the_best_configuration_is_compared_with_the_second_best(figures):
    found = best(figures(hybrid=set(range(18)), bm25={0}, vector={0, 1}))

    assert found.chosen.configuration.name == "hybrid"
    assert found.other.configuration.name == "vector"
    assert found.is_beyond_chance
    assert "PYTOOLS_" not in str(found)


def test_the_settings_are_kept_if_others_are_equal(figures):
    found = best(figures(hybrid={0}, bm25={0}, vector={0}))

    assert found.chosen.configuration.name == "hybrid"
    assert "is as good as any: it is what searches use with your settings" in str(found)


def test_nothing_is_recommended_if_there_is_only_one_configuration(figures):
    assert best(figures()[:1]) is None
    [only] = configurations(Settings(embedding_model="none"), None)
    assert (only.name, dict(only.selected_by)) == ("bm25", {})


def test_hybrid_mode_can_be_evaluated_without_vectors():
    [only] = configurations(Settings(embedding_model="none"), SearchMode.HYBRID)

    assert only.name == "hybrid"


@pytest.mark.parametrize(
    ("gold", "sentence"),
    [
        ([["a"]], "1 of 1 gold ids is not in the index; the query that names it counts"),
        ([["a"], ["a"]], "1 of 1 gold ids is not in the index; the 2 queries that name it count"),
        ([["a", "b"]], "2 of 2 gold ids are not in the index; the query that names them counts"),
        ([["a"], ["b"]], "2 of 2 gold ids are not in the index; the 2 queries that name them"),
    ],
)
def test_unknown_gold_ids_are_counted_in_a_sentence(gold, sentence):
    queries = [EvaluationQuery(id=str(n), text="x", gold=tuple(ids)) for n, ids in enumerate(gold)]

    assert unknown_gold(queries, [], [], ()).sentence.startswith(sentence)
