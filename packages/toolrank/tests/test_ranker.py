"""The ranker as a whole: it merges channels into one ranking and explains every score."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Channel, Hit, HybridRanker, Query, VectorRetriever
from toolrank.errors import RankingArgumentError, RetrievalError
from toolrank.steps import Contribution, Explanation, linear_fusion, reciprocal_rank_fusion

from .lexical import bm25


class FixedList:
    """A third-party retriever, which inherits from nothing in toolrank."""

    def __init__(self, name, *ids, **answers):
        self.name = name
        self.ids = ids
        self.answers = answers
        self.depths = []

    def retrieve(self, query, *, depth):
        self.depths.append(depth)
        if query.text in self.answers:
            pairs = self.answers[query.text].items()
        else:
            pairs = [(id_, 1 / rank) for rank, id_ in enumerate(self.ids, 1)]
        return [Hit(id=id_, score=score) for id_, score in pairs][:depth]


def rank(*channels, limit=10, parts=(), depth=None, pinned=(), **options):
    query = Query(text="any", parts=tuple(Query(text=part) for part in parts))
    ranker = HybridRanker(channels, **options)
    return ranker.rank(query, limit=limit, depth=depth, pinned=pinned)


def scores(hits):
    return {hit.id: hit.score for hit in hits}


def ids(hits):
    return [hit.id for hit in hits]


def test_a_query_without_a_vector_is_still_answered_by_its_words(documents, store_vectors):
    connection = store_vectors({1: (1, 0)})
    ranker = HybridRanker(
        [
            Channel(bm25(connection, table="docs_fts")),
            Channel(VectorRetriever(connection, table="docs_vec")),
        ]
    )
    assert ids(ranker.rank(Query(text="merge pdf"), limit=5)) == ["4"]


def test_the_limit_is_applied_after_fusion():
    first, second = FixedList("first", "a", "b", "c"), FixedList("second", "c", "b", "a")
    assert len(rank(Channel(first), Channel(second), limit=2)) == 2


def test_weights_decide_each_channels_influence():
    first, second = FixedList("first", "a", "b"), FixedList("second", "b", "a")
    assert ids(rank(Channel(first, 2.0), Channel(second, 1.0))) == ["a", "b"]
    assert ids(rank(Channel(first, 1.0), Channel(second, 2.0))) == ["b", "a"]


def test_a_channel_with_weight_zero_is_not_searched():
    silent = FixedList("silent", "z")
    assert ids(rank(Channel(FixedList("loud", "a")), Channel(silent, 0.0))) == ["a"]
    assert silent.depths == []


def test_without_channels_nothing_is_found():
    assert rank() == []


def test_ties_are_broken_by_id():
    assert ids(rank(Channel(FixedList("x", "b")), Channel(FixedList("y", "a")))) == ["a", "b"]


@pytest.mark.parametrize(
    ("limit", "depth", "asked"), [(1, None, 100), (100, None, 100), (101, None, 101), (5, 7, 7)]
)
def test_each_retriever_has_the_same_depth_for_limits_up_to_100(limit, depth, asked):
    retriever = FixedList("any", "a")
    rank(Channel(retriever), limit=limit, depth=depth)
    assert retriever.depths == [asked]


@pytest.mark.parametrize(("depth", "asked"), [(None, [100, 50, 50]), (7, [7, 7, 7])])
def test_retrievers_are_asked_for_50_candidates_for_each_part(depth, asked):
    retriever = FixedList("any", "a")
    rank(Channel(retriever), parts=["one", "two"], depth=depth)
    assert retriever.depths == asked


def test_a_hit_lists_each_channels_contribution():
    words = FixedList("words", any={"a": 7.0, "b": 1.0})
    meaning = FixedList("meaning", any={"b": 0.2})
    by_id = {hit.id: hit.contributions for hit in rank(Channel(words), Channel(meaning))}
    words = {"retriever": "words", "background": 1.0, "rivals": 1.0}
    first = Contribution(rank=1, score=7.0, **words)
    second = Contribution(rank=2, score=1.0, **words)
    other = Contribution(retriever="meaning", rank=1, score=0.2)
    assert by_id == {"a": (first,), "b": (second, other)}


@pytest.mark.parametrize(
    ("count", "background"), [(1, 0), (2, 98), (10, 90), (11, 89), (40, 74.5), (60, 69.5)]
)
def test_the_background_of_a_list_is_the_mean_of_its_ranks_11_to_50(count, background):
    found = {f"{n:02}": 100.0 - n for n in range(1, count + 1)}
    (first, *_) = rank(Channel(FixedList("words", any=found)))
    assert first.contributions[0].background == pytest.approx(background)


@pytest.mark.parametrize(
    ("ids", "rivals"),
    [
        (["a1", "a2", "b1", "c1", "b2", "c2", "d1", "d2"], (6 + 5 + 4 + 3 + 2) / 5),
        (["a1", "a2", "b1", "a3", "b2"], (6 + 4) / 2),
        (["a1", "a2", "a3"], 6),
    ],
    ids=["of more than five", "of two", "none: the background"],
)
def test_the_rivals_of_a_hit_are_the_first_five_of_other_groups(ids, rivals):
    found = {id_: 8.0 - n for n, id_ in enumerate(ids)}
    (first, *_) = rank(Channel(FixedList("words", any=found)), group=lambda id_: id_[0])
    assert first.id == "a1"
    assert first.contributions[0].rivals == pytest.approx(rivals)


def test_filtered_hits_are_compared_with_the_unfiltered_list():
    found = {"a1": 8.0, "b1": 7.0, "a2": 6.0, "c1": 4.0}
    channels = [
        Channel(FixedList("meaning", any=kept), unfiltered=FixedList("meaning", any=found))
        for kept in (found, {"a1": 8.0}, {"a1": 8.0, "c1": 4.0})
    ]

    everything, *filtered = (rank(each, group=lambda id_: id_[0]) for each in channels)

    for hits in filtered:
        for hit in hits:
            (same,) = (each for each in everything if each.id == hit.id)
            (own,), (others,) = hit.contributions, same.contributions
            assert (own.background, own.rivals) == (others.background, others.rivals)


def test_candidates_missing_from_a_truncated_list_get_its_last_score():
    """Nothing that the list left out can have a higher score."""
    words = FixedList("words", any={"a": 4.0, "b": 2.0, "c": 1.0})
    meaning = FixedList("meaning", any={"c": 0.5})
    fuse = partial(linear_fusion, units={"words": 0.1})
    found = scores(rank(Channel(words), Channel(meaning), depth=2, fuse=fuse))
    most = 0.4 + 0.5
    assert found == pytest.approx({"a": 0.4 / most, "b": 0.2 / most, "c": (0.2 + 0.5) / most})


@pytest.mark.parametrize(("missing_score", "share"), [("zero", 0.0), ("last", 0.3)])
def test_a_channel_estimates_candidates_missing_from_a_complete_list(missing_score, share):
    words = FixedList("words", any={"a": 1.0})
    meaning = FixedList("meaning", any={"b": 0.5, "c": 0.3})
    fuse = partial(linear_fusion, units={})
    found = scores(rank(Channel(words), Channel(meaning, missing_score=missing_score), fuse=fuse))
    assert found == pytest.approx({"a": (1 + share) / 1.5, "b": 0.5 / 1.5, "c": 0.3 / 1.5})


def test_a_candidate_one_channel_cannot_judge_is_judged_by_the_others():
    """Without a vector, its share by meaning is its share by words, and its explanation says so."""
    words = FixedList("words", any={"a": 4.0, "b": 2.0, "c": 1.0})
    meaning = FixedList("meaning", any={"c": 0.5, "d": 0.1})
    asked = []

    def covered_ids(ids):
        asked.append(set(ids))
        return {"a"}

    fuse = partial(linear_fusion, units={"words": 0.1})
    found = rank(
        Channel(words), Channel(meaning, missing_score="last", covered_ids=covered_ids), fuse=fuse
    )
    most = 0.4 + 0.5
    # a is known to be no closer than the last; b has half of the best score by words, so it is
    # placed halfway from 0.1 to 0.5.
    assert scores(found) == pytest.approx(
        {"a": 0.5 / most, "b": 0.5 / most, "c": 0.6 / most, "d": 0.1 / most}
    )
    assert asked == [{"a", "b"}]
    told = {hit.id: (hit.explanation.missing, len(hit.contributions)) for hit in found}
    assert told == {"a": ((), 1), "b": (("meaning",), 1), "c": ((), 2), "d": ((), 1)}


def test_candidates_found_by_a_part_can_be_unjudged_too():
    words = FixedList("words", any={"a": 4.0}, one={"b": 2.0, "c": 1.0})
    meaning = Channel(FixedList("meaning", "c"), covered_ids=lambda ids: set(ids) - {"b"})
    found = rank(Channel(words), meaning, parts=["one"])
    told = {hit.id: hit.explanation.missing for hit in found}
    assert told == {"a": (), "b": ("meaning",), "c": ()}


def test_an_empty_list_has_no_floor():
    nothing = Channel(FixedList("meaning"), missing_score="last")
    found = rank(Channel(FixedList("words", any={"a": 2.0})), nothing, fuse=linear_fusion)
    assert scores(found) == {"a": 0.5}


WORDS = {"any": {"a": 4.0, "b": 3.0, "c": 1.0}, "one": {"b": 2.0, "d": 1.0}, "two": {"c": 8.0}}


def test_a_part_raises_the_scores_of_its_answers_by_its_share():
    found = rank(
        Channel(FixedList("words", **WORDS)),
        parts=["one", "two"],
        part_share=0.4,
        fuse=linear_fusion,
    )
    assert scores(found) == pytest.approx(
        {
            "a": 0.6 * 1.0 + 0.4 * 0.0,
            "b": 0.6 * 0.75 + 0.4 * 1.0,
            "c": 0.6 * 0.25 + 0.4 * 1.0,
            "d": 0.6 * 0.0 + 0.4 * 0.5,
        }
    )
    assert [(hit.id, hit.explanation) for hit in found] == [
        ("b", Explanation(request=0.75, part=0, part_score=1.0, merged=pytest.approx(0.85))),
        ("a", Explanation(request=1.0, part=0, part_score=0.0, merged=pytest.approx(0.6))),
        ("c", Explanation(request=0.25, part=1, part_score=1.0, merged=pytest.approx(0.55))),
        ("d", Explanation(request=0.0, part=0, part_score=0.5, merged=pytest.approx(0.2))),
    ]


def test_the_best_hit_of_request_and_part_has_score_1():
    words = FixedList("words", any={"a": 4.0, "b": 3.0}, one={"a": 2.0}, two={"b": 9.0})
    found = rank(Channel(words), parts=["one", "two"], fuse=linear_fusion)
    assert scores(found)["a"] == 1.0


def test_parts_that_find_nothing_are_ignored():
    answers = {"any": {"a": 4.0, "b": 2.0}, "one": {}}
    found = rank(Channel(FixedList("words", **answers)), parts=["one"], fuse=linear_fusion)
    assert scores(found) == {"a": 1.0, "b": 0.5}
    assert found[0].explanation == Explanation(request=1.0, merged=1.0)


def test_a_candidate_missing_from_a_part_gets_its_floor():
    answers = {"any": {"a": 4.0, "b": 2.0}, "one": {"b": 0.5, "c": 0.4}}
    words = Channel(FixedList("words", **answers), missing_score="last")
    found = scores(rank(words, parts=["one"], part_share=0.5, fuse=linear_fusion))
    assert found == pytest.approx(
        {"a": (1.0 + 0.8) / 2, "b": (0.5 + 1.0) / 2, "c": (0.5 + 0.8) / 2}
    )


def test_parts_without_a_share_are_not_searched():
    retriever = FixedList("words", "a")
    (hit,) = rank(Channel(retriever), parts=["one"], part_share=0.0)
    assert len(retriever.depths) == 1
    assert hit.explanation.part is None


GROUPED = {"any": {"x:a": 4.0, "y:b": 3.0, "x:c": 2.0, "z:d": 1.0}}


def group_of(id_):
    return id_.partition(":")[0]


def test_the_best_hit_of_a_group_raises_the_scores_of_the_others():
    words = Channel(FixedList("words", **GROUPED))
    found = rank(words, group=group_of, group_weight=0.5, fuse=linear_fusion)
    assert scores(found) == pytest.approx(
        {
            "x:a": 1.0,
            "x:c": (0.5 + 0.5 * 1.0) / 1.5,
            "y:b": 0.75,
            "z:d": 0.25,
        }
    )
    assert {hit.id: hit.explanation.group for hit in found} == {
        "x:a": 1.0,
        "y:b": 0.75,
        "x:c": 1.0,
        "z:d": 0.25,
    }


def test_scores_raised_above_1_by_usage_are_rescaled():
    words = Channel(FixedList("words", **GROUPED))
    found = rank(words, usage={"x:a": 1.05, "y:b": 0.9}, fuse=linear_fusion)
    assert scores(found) == pytest.approx(
        {"x:a": 1.0, "y:b": 0.75 * 0.9 / 1.05, "x:c": 0.5 / 1.05, "z:d": 0.25 / 1.05}
    )


@pytest.mark.parametrize(("factor", "bounded"), [(7.0, 1.1), (0.0, 0.9), (math.nan, 0.9)])
def test_the_effect_of_usage_is_bounded(factor, bounded):
    words = Channel(FixedList("words", **GROUPED))
    found = rank(words, usage={"y:b": factor}, fuse=linear_fusion)
    assert scores(found)["y:b"] == pytest.approx(0.75 * bounded)


def test_usage_alone_finds_nothing():
    assert rank(Channel(FixedList("words")), usage={"a": 1.1}) == []


def test_a_name_with_a_different_verb_loses_a_tenth_of_its_score():
    words = Channel(
        FixedList("words", **{"open an issue": {"get_issue": 1.0, "create_issue": 0.95}})
    )
    ranker = HybridRanker([words], fuse=linear_fusion, name=lambda id_: id_)
    found = ranker.rank(Query(text="open an issue"), limit=9)
    assert [(hit.id, hit.explanation.verb) for hit in found] == [
        ("create_issue", 1.0),
        ("get_issue", 0.9),
    ]
    assert scores(found) == pytest.approx({"create_issue": 0.95, "get_issue": 0.9})


def test_a_request_with_several_verbs_prefers_none():
    words = Channel(FixedList("words", "get_issue", "create_issue"))
    query = Query(text="open an issue", parts=(Query(text="open an issue"),))
    found = HybridRanker([words], name=lambda id_: id_).rank(query, limit=9)
    assert [hit.explanation.verb for hit in found] == [1.0, 1.0]


def test_pinned_hits_come_first_in_order_with_score_1():
    words = Channel(FixedList("words", **GROUPED))
    pinned = ["z:d", "nowhere", "y:b", "z:d"]
    found = rank(words, pinned=pinned, fuse=linear_fusion, usage={"z:d": 0.9})
    assert [(hit.id, hit.score) for hit in found] == [
        ("z:d", 1.0),
        ("nowhere", 1.0),
        ("y:b", 1.0),
        ("x:a", 1.0),
        ("x:c", 0.5),
    ]
    assert [hit.explanation.pinned for hit in found] == [True, True, True, False, False]
    assert found[0].explanation.merged == 0.25
    assert [len(hit.contributions) for hit in found] == [1, 0, 1, 1, 1]


def test_the_limit_applies_to_pinned_hits_too():
    assert ids(rank(Channel(FixedList("words", "c")), pinned=["b", "a"], limit=1)) == ["b"]


def test_a_score_follows_from_its_explanation():
    words = FixedList("words", **WORDS)
    (meaning, meanings) = FixedList("meaning", any={"d": 0.4, "a": 0.3}), {"a": 0.95, "b": 1.1}
    found = rank(
        Channel(words),
        Channel(meaning, missing_score="last"),
        parts=["one", "two"],
        fuse=partial(linear_fusion, units={"words": 0.03}),
        group=lambda id_: "ab" if id_ in "ab" else id_,
        usage=meanings,
    )
    used = {}
    for hit in found:
        why = hit.explanation
        merged = 0.7 * why.request + 0.3 * why.part_score
        assert why.merged == pytest.approx(merged)
        used[hit.id] = (merged + 0.3 * why.group) / 1.3 * why.usage
    most = max(1.0, *used.values())
    assert scores(found) == pytest.approx({id_: score / most for id_, score in used.items()})


@pytest.mark.parametrize(
    ("options", "argument"), [({"limit": 0}, "limit"), ({"limit": 5, "depth": 0}, "depth")]
)
def test_a_limit_or_a_depth_below_1_is_refused(options, argument):
    with pytest.raises(RankingArgumentError, match="below 1") as caught:
        rank(Channel(FixedList("any", "a")), **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_must_be_a_finite_number_of_zero_or_more(weight):
    with pytest.raises(RankingArgumentError, match="'any' has weight") as caught:
        rank(Channel(FixedList("any", "a"), weight))
    assert caught.value.argument == "channels"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"part_share": -0.1}, "part_share"),
        ({"part_share": 1.1}, "part_share"),
        ({"part_share": math.nan}, "part_share"),
        ({"group_weight": -1.0}, "group_weight"),
        ({"group_weight": math.inf}, "group_weight"),
    ],
)
def test_shares_are_between_0_and_1_and_group_weights_finite(options, argument):
    with pytest.raises(RankingArgumentError) as caught:
        rank(Channel(FixedList("any", "a")), **options)
    assert caught.value.argument == argument


def test_channels_with_the_same_name_are_refused():
    with pytest.raises(RankingArgumentError, match="names must differ"):
        rank(Channel(FixedList("same", "a")), Channel(FixedList("same", "b")))


def test_a_retrievers_error_is_not_hidden(connection):
    with pytest.raises(RetrievalError, match="'bm25' failed"):
        rank(Channel(bm25(connection, table="missing")))


lists = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e9, 1e9), max_size=6).map(
    lambda found: dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
)
answers = st.fixed_dictionaries({"any": lists, "one": lists, "two": lists})


@given(
    given=st.lists(st.tuples(answers, st.sampled_from([0.0, 0.5, 2.0])), min_size=1, max_size=3),
    fuse=st.sampled_from(
        [reciprocal_rank_fusion, linear_fusion, partial(linear_fusion, units={"0": 0.03})]
    ),
    missing_score=st.sampled_from(["zero", "last"]),
    usage=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.9, 1.1)),
    pinned=st.lists(st.sampled_from("abcxyz")),
    depth=st.integers(1, 9),
)
def test_any_lists_are_ranked_deterministically_with_scores_from_0_to_1(
    given, fuse, missing_score, usage, pinned, depth
):
    channels = [
        Channel(FixedList(str(number), **found), weight, missing_score)
        for number, (found, weight) in enumerate(given)
    ]
    options = {
        "parts": ["one", "two"],
        "fuse": fuse,
        "group": lambda id_: id_ < "c",
        "usage": usage,
        "pinned": pinned,
        "depth": depth,
        "limit": 99,
    }
    found = rank(*channels, **options)
    first = list(dict.fromkeys(pinned))
    assert ids(found)[: len(first)] == first
    order = [(-hit.score, hit.id) for hit in found[len(first) :]]
    assert order == sorted(order)
    assert len(set(ids(found))) == len(found)
    assert all(0.0 <= hit.score <= 1.0 for hit in found)
    turned = rank(*reversed(channels), **options)
    assert [(hit.id, hit.score) for hit in turned] == [(hit.id, hit.score) for hit in found]
    assert ids(rank(*channels, **options | {"limit": 2})) == ids(found)[:2]


def test_a_hit_lists_contributions_for_the_part_it_answers_best():
    class Words:
        name = "words"

        def retrieve(self, query, *, depth):
            scores = {"whole": {"a": 4.0, "b": 2.0}, "first": {"a": 3.0}, "second": {"b": 1.0}}
            return [Hit(id=id_, score=score) for id_, score in scores[query.text].items()]

    parts = (Query(text="first"), Query(text="second"))
    a, b = HybridRanker([Channel(Words())]).rank(Query(text="whole", parts=parts), limit=2)

    assert (a.explanation.part, [each.score for each in a.part_contributions]) == (0, [3.0])
    assert (b.explanation.part, [each.score for each in b.part_contributions]) == (1, [1.0])
    assert [each.score for each in b.contributions] == [2.0]
    (alone,) = HybridRanker([Channel(Words())]).rank(Query(text="second"), limit=1)
    assert alone.part_contributions == ()
