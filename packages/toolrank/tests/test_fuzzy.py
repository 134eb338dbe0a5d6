"""Rows are found by words that are misspelt, cut short, or run together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import IdColumn
from toolrank._fuzzy import approximate_terms
from toolrank._query import STOP_WORDS
from toolrank._spelling import Vocabulary, osa_distance
from toolrank.errors import RetrievalError

from .lexical import fuzzy

CONTENT = IdColumn(table="docs", column="id")
NAMES = {
    "create_issue": "Open a new issue.",
    "create_pull_request": "Propose changes of a branch.",
    "list_repositories": "What an account has.",
    "create_event": "Put an event into the calendar.",
    "send_mail": "Write to somebody.",
    "pullrequest": "Nothing else.",
    "read_form": "Read what was filled in.",
    "read_farm": "Read what grows.",
}


@pytest.fixture
def named(connection):
    """Tools by name and description."""
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE)")
    connection.execute(
        "CREATE VIRTUAL TABLE docs_fts USING fts5 (name, text, tokenize = 'porter unicode61')"
    )
    for row, (name, text) in enumerate(NAMES.items(), start=1):
        words = name.replace("_", " ")
        connection.execute("INSERT INTO docs (rowid, id) VALUES (?, ?)", (row, name))
        connection.execute(
            "INSERT INTO docs_fts (rowid, name, text) VALUES (?, ?, ?)", (row, words, text)
        )
    return connection


def ask(connection, text, *, depth=5, **options):
    retriever = fuzzy(connection, weights=(5, 1), content=CONTENT, **options)
    return [hit.id for hit in retriever.retrieve(text, depth=depth)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("creat isu", "create_issue"),
        ("isue", "create_issue"),
        ("xssue", "create_issue"),
        ("creat pul reqest", "create_pull_request"),
        ("calender evnt", "create_event"),
        ("repo", "list_repositories"),
        ("reposotories", "list_repositories"),
        ("sendmail", "send_mail"),
        ("createissue", "create_issue"),
        ("sned mial", "send_mail"),
    ],
)
def test_a_tool_is_found_by_words_that_are_misspelt_cut_short_or_run_together(named, text, first):
    assert ask(named, text)[0] == first


def test_exact_words_rank_before_similar_ones(named):
    assert ask(named, "form") == ["read_form", "read_farm"]


def test_a_word_in_most_rows_is_skipped_unless_it_is_the_only_one(connection):
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (name)")
    for row in range(1, 201):
        words = "tool special" if row == 7 else "tool"
        connection.execute("INSERT INTO docs_fts (rowid, name) VALUES (?, ?)", (row, words))
    retriever = fuzzy(connection)

    def found(text):
        return [hit.id for hit in retriever.retrieve(text, depth=500)]

    assert found("tool specal") == ["7"]
    assert found("tols specal") == ["7"]
    assert len(found("tols")) == 200
    assert len(found("tool")) == 200


def test_a_table_that_is_not_fts5_is_an_error(connection):
    with pytest.raises(RetrievalError, match="'fuzzy' failed"):
        fuzzy(connection, table="nothing").retrieve("isue", depth=1)


# Similar terms

TERMS = Vocabulary(
    {"issu": 9, "repositori": 5, "report": 3, "calendar": 2, "pullrequest": 1, "pull": 4}
    | {"request": 8, "form": 8, "farm": 8, "event": 2}
)


def alike(word, vocabulary=TERMS):
    return [similar.term for similar in approximate_terms(vocabulary, word)]


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("isu", ["issu"]),
        ("issues", ["issu"]),
        ("repo", ["report", "repositori"]),
        ("request", ["pullrequest"]),
        ("pullrequest", ["request", "pull"]),
        ("kalender", ["calendar"]),
        ("form", ["farm"]),
        ("fo", []),
        ("f0rm", []),
        ("x" * 33, []),
    ],
)
def test_similar_terms_are_ordered_by_similarity(word, terms):
    assert alike(word) == terms


def test_a_word_has_at_most_twelve_similar_terms():
    many = Vocabulary({f"port{chr(97 + n)}": 1 for n in range(26)})
    assert len(alike("port", many)) == 12


@given(st.dictionaries(st.text("abcd", min_size=3, max_size=9), st.integers(1, 9)), st.text("abcd"))
def test_similarity_is_between_0_and_1_and_orders_the_terms(documents, word):
    found = approximate_terms(Vocabulary(documents), word)
    similarities = [similar.similarity for similar in found]
    assert all(0 < similarity <= 1 for similarity in similarities)
    assert similarities == sorted(similarities, reverse=True)
    assert word not in [similar.term for similar in found]


@given(
    st.lists(st.text("abcd", min_size=3, max_size=7)),
    st.text("abcd", min_size=1, max_size=7),
    st.integers(1, 2),
)
def test_all_terms_within_the_edit_distance_are_found(words, word, max_edits):
    documents = dict.fromkeys((it for it in words if it not in STOP_WORDS), 1)
    distances = {term: osa_distance(word, term, limit=9) for term in documents}
    expected = {term: distance for term, distance in distances.items() if distance <= max_edits}
    assert dict(Vocabulary(documents).within(word, max_edits=max_edits)) == expected


@given(st.lists(st.text("abcd", min_size=3, max_size=9)), st.text("abcd", min_size=1, max_size=3))
def test_all_terms_that_contain_the_letters_are_found(words, piece):
    documents = dict.fromkeys((it for it in words if it not in STOP_WORDS), 1)
    expected = sorted(word for word in documents if piece in word)
    assert list(Vocabulary(documents).holding(piece)) == expected
