"""Which configuration an evaluation tells to use, and the picture that it draws."""

import pytest
from pytools_hybrid import Settings
from pytools_hybrid.jobs.evaluate import best, configurations, write_plot
from pytools_hybrid.jobs.evaluate._figures import measure
from pytools_hybrid.jobs.evaluate._gold import unknown_gold
from pytools_hybrid.jobs.evaluate._queries import EvaluationQuery
from pytools_hybrid.search import SearchMode
from toolrank import Hit

QUERIES = [EvaluationQuery(id=f"q{n}", text=f"query {n}", gold=("right",)) for n in range(20)]


@pytest.fixture
def figures():
    """Figures of all configurations, given on which queries each finds the right tool."""

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
            for found in [right.get(configuration.slug.replace("-", "_"), ())]
        ]

    return make


def test_the_settings_are_kept_where_a_better_mean_may_be_chance(figures):
    found = best(figures(hybrid={0, 1, 2}, bm25={2, 3, 4, 5}))

    assert found.chosen.configuration.name == "hybrid"
    assert found.other.configuration.name == "bm25"
    assert found.difference.mean == pytest.approx(-1 / 20)
    assert not found.is_beyond_chance
    assert str(found).startswith("Keep hybrid (ndcg@10 0.150): it is what searches use")
    assert "bm25 is 0.050 above it" in str(found)
    assert "cannot tell the two apart" in str(found)


def test_a_change_is_recommended_where_it_is_better_beyond_chance(figures):
    found = best(figures(hybrid={0, 1, 2}, hybrid_rrf=set(range(18))))

    assert found.chosen.configuration.name == "hybrid (rrf)"
    assert found.other.configuration.name == "hybrid"
    assert found.is_beyond_chance
    assert "select it with PYTOOLS_FUSION=rrf. It is 0.750 above hybrid" in str(found)


def test_the_best_as_it_is_set_is_compared_with_the_next(figures):
    found = best(figures(hybrid=set(range(18)), bm25={0}, vector={0, 1}))

    assert found.chosen.configuration.name == "hybrid"
    assert found.other.configuration.name == "vector"
    assert found.is_beyond_chance
    assert "PYTOOLS_" not in str(found)


def test_of_equals_the_settings_are_kept(figures):
    found = best(figures(hybrid={0}, bm25={0}, vector={0}))

    assert found.chosen.configuration.name == "hybrid"
    assert "is as good as any: it is what searches use with your settings" in str(found)


def test_nothing_is_recommended_where_there_is_one_way_to_search(figures):
    assert best(figures()[:1]) is None
    [only] = configurations(Settings(embedding_model="none"), None)
    assert (only.name, dict(only.selected_by)) == ("bm25", {})


def test_hybrid_without_vectors_can_still_be_asked_for():
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
def test_what_is_unknown_is_reported_in_one_or_many(gold, sentence):
    queries = [EvaluationQuery(id=str(n), text="x", gold=tuple(ids)) for n, ids in enumerate(gold)]

    assert unknown_gold(queries, [], []).sentence.startswith(sentence)


def test_a_plot_is_a_png(figures, tmp_path):
    pytest.importorskip("matplotlib")

    write_plot(tmp_path / "plot.png", figures(hybrid={0}), recall_at=(1, 3), title="20 queries")

    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
