"""The measures agree with trec_eval, which is called through its Python binding."""

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from toolrank.metrics import evaluate

CUTS = (1, 3, 5, 10)
# Our names and theirs. trec_eval has no completeness and no MRR with a cutoff, which have their
# own tests.
SAME = {
    f"{ours}@{k}": f"{theirs}_{k}"
    for ours, theirs in [
        ("recall", "recall"),
        ("precision", "P"),
        ("hit", "success"),
        ("ndcg", "ndcg_cut"),
    ]
    for k in CUTS
} | {"mrr": "recip_rank"}
THEIRS = {
    f"{name}.{','.join(map(str, CUTS))}" for name in ("recall", "P", "success", "ndcg_cut")
} | {"recip_rank"}

queries = st.sampled_from(["q1", "q2", "q3", "q4"])
ids = st.sampled_from([f"tool-{number}" for number in range(16)])
rankings = st.dictionaries(queries, st.lists(ids, min_size=1, unique=True))
judgements = st.dictionaries(
    queries,
    st.dictionaries(ids, st.integers(min_value=-1, max_value=4), min_size=1).filter(
        lambda gains: max(gains.values()) > 0
    ),
    min_size=1,
)


def scored(ranked):
    """Return scores that decrease with rank: trec_eval orders ties by id, in reverse."""
    return {id_: float(len(ranked) - place) for place, id_ in enumerate(ranked)}


def theirs_of(run, qrels):
    """Return trec_eval's values; a query missing from the run scores 0, as with its option -c."""
    scores = {query: scored(ranked) for query, ranked in run.items()}
    found = pytrec_eval.RelevanceEvaluator(qrels, THEIRS).evaluate(scores)
    return {
        ours: {query: found[query][theirs] if query in found else 0.0 for query in qrels}
        for ours, theirs in SAME.items()
    }


@given(run=rankings, qrels=judgements)
def test_every_measure_equals_that_of_trec_eval(run, qrels):
    ours, theirs = evaluate(run, qrels, SAME).values, theirs_of(run, qrels)
    for measure in SAME:
        assert ours[measure] == pytest.approx(theirs[measure]), measure


@given(run=rankings, qrels=judgements)
def test_completeness_is_full_recall(run, qrels):
    measures = [f"completeness@{k}" for k in CUTS]
    ours, theirs = evaluate(run, qrels, measures).values, theirs_of(run, qrels)
    for k in CUTS:
        full = {query: float(value == 1) for query, value in theirs[f"recall@{k}"].items()}
        assert ours[f"completeness@{k}"] == full


@given(run=rankings, qrels=judgements)
def test_mrr_with_a_cutoff_is_that_of_a_truncated_run(run, qrels):
    for k in CUTS:
        cut = {query: ranked[:k] for query, ranked in run.items()}
        ours = evaluate(run, qrels, [f"mrr@{k}"]).values
        assert ours[f"mrr@{k}"] == pytest.approx(theirs_of(cut, qrels)["mrr"])
