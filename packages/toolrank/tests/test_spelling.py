"""How far apart two spellings are, and which terms a misspelt word may stand for."""

from contextlib import closing
from functools import cache

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank._spelling import Vocabulary, osa_distance
from toolrank.errors import RetrievalError

from .lexical import full_text

WORDS = st.text("abcd", max_size=8)


def defined(a, b):
    """Return the distance by its definition: the cheapest alignment of the two words."""

    @cache
    def cost(i, j):
        if 0 in (i, j):
            return i + j
        ways = [
            cost(i - 1, j) + 1,
            cost(i, j - 1) + 1,
            cost(i - 1, j - 1) + (a[i - 1] != b[j - 1]),
        ]
        if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1]:
            ways.append(cost(i - 2, j - 2) + 1)
        return min(ways)

    return cost(len(a), len(b))


@given(WORDS, WORDS, st.integers(0, 9))
def test_the_distance_is_the_edit_distance_up_to_the_limit(a, b, limit):
    distance = osa_distance(a, b, limit=limit)
    assert min(distance, limit + 1) == min(defined(a, b), limit + 1)


def terms(vocabulary, word):
    return [similar.term for similar in vocabulary.similar(word)]


STEMS = Vocabulary(
    {"issu": 9, "repositori": 5, "notif": 4, "calendar": 3, "with": 90, "weather": 2}
    | {
        "furnish": 1,
        "form": 8,
        "farm": 8,
        "firm": 9,
        "foam": 1,
        "form2": 5,
        "ab": 7,
        "file": 9,
        "fill": 3,
    }
)


@pytest.mark.parametrize(
    ("word", "term"),
    [
        ("isue", "issu"),
        ("issuse", "issu"),
        ("siuse", None),
        ("sisue", "issu"),
        ("xissu", None),
        ("repositry", "repositori"),
        ("repsoitry", "repositori"),
        ("notfication", "notif"),
        ("calandar", "calendar"),
        ("kalendar", None),
        ("wether", "weather"),
        ("fiel", "file"),
        ("zzzz", None),
        ("fxrm", None),
        ("cform", None),
    ],
)
def test_a_misspelt_word_matches_the_nearest_term(word, term):
    assert terms(STEMS, word)[:1] == ([term] if term else [])


def test_the_nearest_terms_are_ordered_by_frequency():
    found = STEMS.similar("furm")
    assert [similar.term for similar in found] == ["firm", "farm", "form"]
    assert [similar.documents for similar in found] == [9, 8, 8]
    assert {similar.similarity for similar in found} == {0.75}


def test_a_word_matches_terms_that_begin_with_it():
    (found,) = STEMS.similar("repo")
    assert (found.term, found.similarity) == ("repositori", 4 / 11)
    assert terms(STEMS, "rep") == []


@pytest.mark.parametrize("word", ["", "iss", "is2ue", "i" * 33, "iss ue", "\0isue", "\ud800sue"])
def test_short_words_and_words_with_digits_match_nothing_else(word):
    assert terms(STEMS, word) == []


def test_stop_words_and_digits_are_never_corrections():
    assert terms(STEMS, "withh") == []
    assert len(STEMS) == 12


def test_reading_the_vocabulary_leaves_no_temporary_table(documents):
    full_text(documents).vocabulary()
    (count,) = next(iter(documents.execute("SELECT count(*) FROM temp.sqlite_master", ())))
    assert count == 0


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_vocabulary_of_a_read_only_database_can_be_read(tmp_path, in_transaction):
    path = str(tmp_path / "docs.db")
    with closing(apsw.Connection(path)) as writer:
        writer.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
        writer.execute("INSERT INTO docs_fts VALUES ('issue')")
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("PRAGMA query_only = 1")
        if in_transaction:
            reader.execute("BEGIN")
        assert terms(full_text(reader).vocabulary(), "isue") == ["issue"]
        assert reader.pragma("query_only") == 1


def test_a_missing_table_leaves_the_connection_as_it_was():
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("PRAGMA query_only = 1")
        with pytest.raises(RetrievalError):
            full_text(connection, "missing").vocabulary()
        assert connection.pragma("query_only") == 1
