"""Duplicate hits: only the best is returned, and it lists the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import RankedHit
from toolrank._duplicates import Fingerprint, group_duplicates

TEN = "open a new issue in the repository of some project"
TOOLS = {
    "github:create_issue": ("create issue", TEN),
    "gitea:createIssue": ("issue create", f"{TEN} here"),
    "jira:create_issue": ("create issue", "add a ticket to the board"),
    "github:new_issue": ("new issue", TEN),
    "a:ping": ("ping", ""),
    "b:ping": ("ping", ""),
}


def fingerprint(id_):
    if id_ not in TOOLS:
        return None
    name, description = TOOLS[id_]
    return Fingerprint(frozenset(name.split()), frozenset(description.split()))


def hits(*ids):
    return [RankedHit(id=id_, score=1 / rank, contributions=()) for rank, id_ in enumerate(ids, 1)]


def grouped(*ids, **options):
    found = group_duplicates(hits(*ids), fingerprint=fingerprint, **options)
    return [(hit.id, hit.duplicates) for hit in found]


def test_the_best_of_duplicate_hits_is_kept_and_lists_the_others():
    assert grouped("gitea:createIssue", "a:ping", "github:create_issue") == [
        ("gitea:createIssue", ("github:create_issue",)),
        ("a:ping", ()),
    ]


def test_hits_with_one_name_but_different_descriptions_are_kept():
    assert grouped("github:create_issue", "jira:create_issue") == [
        ("github:create_issue", ()),
        ("jira:create_issue", ()),
    ]


def test_hits_with_one_description_but_different_names_are_kept():
    assert len(grouped("github:create_issue", "github:new_issue")) == 2


@pytest.mark.parametrize(("similarity", "kept"), [(10 / 11, 1), (10 / 11 + 1e-9, 2)])
def test_descriptions_are_compared_by_their_shared_words(similarity, kept):
    found = grouped("github:create_issue", "gitea:createIssue", similarity=similarity)
    assert len(found) == kept


def test_hits_without_a_description_are_compared_by_their_names_alone():
    assert grouped("b:ping", "a:ping") == [("b:ping", ("a:ping",))]


def test_a_hit_without_a_fingerprint_is_kept():
    assert grouped("x", "y", "x2") == [("x", ()), ("y", ()), ("x2", ())]


def test_a_duplicates_duplicates_move_to_the_hit_that_is_kept():
    kept, other = hits("a:ping", "b:ping")
    other = RankedHit(id=other.id, score=0.5, contributions=(), duplicates=("c:ping",))
    kept = RankedHit(id=kept.id, score=1.0, contributions=(), duplicates=("d:ping",))
    (only,) = group_duplicates([kept, other], fingerprint=fingerprint)
    assert only.duplicates == ("d:ping", "b:ping", "c:ping")
    assert only.score == 1.0


def test_grouping_nothing_returns_nothing():
    assert group_duplicates([], fingerprint=fingerprint) == []


def test_a_hit_is_compared_with_a_bounded_number_of_others():
    asked = 0

    class Counted(frozenset):
        def __or__(self, other):
            nonlocal asked
            asked += 1
            return super().__or__(other)

    def distinct(id_):
        return Fingerprint(frozenset({"same"}), Counted({id_}))

    found = hits(*(str(number) for number in range(200)))
    assert group_duplicates(found, fingerprint=distinct) == found
    assert asked <= 200 * 8


@given(st.lists(st.sampled_from([*TOOLS, "x", "y"]), unique=True))
def test_no_hit_is_lost_and_the_order_is_kept(ids):
    found = grouped(*ids)
    assert [id_ for id_, _ in found] == [id_ for id_ in ids if id_ in dict(found)]
    assert sorted(ids) == sorted(each for id_, others in found for each in (id_, *others))
