"""Lexical retrieval over a real FTS5 table, through both drivers."""

import math
from contextlib import closing

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from toolrank import (
    BM25Retriever,
    Content,
    Filter,
    Query,
    RankingArgumentError,
    RetrievalError,
    Retriever,
    ToolRankError,
)

CONTENT = Content(table="docs", column="id")


def find(connection, text, *, depth=10, **options):
    retriever = BM25Retriever(connection, table="docs_fts", **options)
    return retriever.retrieve(Query(text=text), depth=depth)


def ids(hits):
    return [hit.id for hit in hits]


def test_a_request_finds_rows_that_hold_only_some_of_its_words(documents):
    found = find(documents, "please merge my two documents", content=CONTENT)
    assert ids(found) == ["pdf:merge"]


def test_the_best_row_comes_first_and_scores_are_above_zero(documents):
    found = find(documents, "create an issue", content=CONTENT)
    assert ids(found) == ["github:create_issue", "github:list_issues"]
    assert found[0].score > found[1].score > 0


@pytest.mark.parametrize("text", ["createIssue", "create_issue", "creating issues", "CREATE-ISSUE"])
def test_spellings_of_a_name_find_it(documents, text):
    assert ids(find(documents, text, content=CONTENT))[0] == "github:create_issue"


@pytest.mark.parametrize(
    "text", ["create AND issue", "NOT issue", "issue -repository", "name:issue"]
)
def test_a_query_of_operators_is_searched_as_words(documents, text):
    assert "github:create_issue" in ids(find(documents, text, content=CONTENT))


@pytest.mark.parametrize("text", ["", "   ", "?!", "\0", "\ud800"])
def test_a_query_without_words_finds_nothing(documents, text):
    assert find(documents, text) == []


@given(st.text(st.characters(codec=None), max_size=200))
@example('" OR "')
@example("issue\0issue")
@example("issue \ud800")
@example("名前 🛠")
@settings(max_examples=200)
def test_no_text_makes_a_search_fail(text):
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
        connection.execute("INSERT INTO docs_fts VALUES ('issue OR 名前')")
        find(connection, text)
        assert ids(find(connection, f"issue {text}")) == ["1"] or len(text) > 100


def test_a_very_long_query_is_answered_from_its_first_words(documents):
    text = "merge " + " ".join(f"filler{number}x" for number in range(20_000))
    assert ids(find(documents, text, content=CONTENT)) == ["pdf:merge"]


def test_a_column_weighs_what_it_is_given(connection):
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (name, text)")
    connection.execute("INSERT INTO docs_fts VALUES ('merge', 'x'), ('x', 'merge'), ('x', 'x')")
    assert ids(find(connection, "merge", weights=(3.0, 1.0))) == ["1", "2"]
    assert ids(find(connection, "merge", weights=(1.0, 3.0))) == ["2", "1"]
    assert [hit.score for hit in find(connection, "merge", weights=(1.0, 0.0))][1] == 0.0


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_must_be_a_finite_number_of_zero_or_more(documents, weight):
    with pytest.raises(RankingArgumentError, match="column 1 has weight") as caught:
        find(documents, "merge", weights=(1.0, weight))
    assert caught.value.argument == "weights"


def test_without_a_content_table_ids_are_rowids(documents):
    assert ids(find(documents, "merge")) == ["4"]


def test_equal_scores_come_in_the_order_of_their_ids(connection):
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
    for rowid in (1, 2, 10):
        connection.execute("INSERT INTO docs_fts (rowid, text) VALUES (?, 'same')", (rowid,))
    assert ids(find(connection, "same")) == ["1", "10", "2"]


def test_depth_bounds_the_hits_to_the_best(documents):
    assert ids(find(documents, "create issue", depth=1, content=CONTENT)) == ["github:create_issue"]


def test_a_filter_never_starves_the_result(connection):
    """Five allowed rows among a thousand better ones are all found by a search for five."""
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE, source TEXT)")
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
    for rowid in range(1, 1001):
        allowed = rowid % 200 == 0
        connection.execute(
            "INSERT INTO docs (rowid, id, source) VALUES (?, ?, ?)",
            (rowid, f"doc{rowid:04}", "mine" if allowed else "other"),
        )
        connection.execute(
            "INSERT INTO docs_fts (rowid, text) VALUES (?, ?)",
            (rowid, "issue padded with many more words" if allowed else "issue"),
        )
    where = Filter(sql="SELECT rowid FROM docs WHERE source = ?", parameters=("mine",))
    found = find(connection, "issue", depth=5, content=CONTENT, where=where)
    assert ids(found) == ["doc0200", "doc0400", "doc0600", "doc0800", "doc1000"]


@pytest.mark.parametrize(
    "name", ["docs; DROP TABLE docs", "docs fts", 'docs"', "", "1docs", "döcs"]
)
def test_names_that_are_not_plain_identifiers_are_refused(documents, name):
    with pytest.raises(RankingArgumentError, match="plain SQL identifier"):
        BM25Retriever(documents, table=name)
    with pytest.raises(RankingArgumentError, match="plain SQL identifier"):
        Content(table=name, column="id")
    with pytest.raises(RankingArgumentError, match="plain SQL identifier"):
        Content(table="docs", column=name)


@pytest.mark.parametrize("table", ["missing", "docs"])
def test_a_table_that_is_missing_or_no_full_text_table_is_a_retrieval_error(documents, table):
    retriever = BM25Retriever(documents, table=table, name="words")
    with pytest.raises(RetrievalError, match="Check that its table exists") as caught:
        retriever.retrieve(Query(text="merge"), depth=5)
    assert caught.value.retriever == "words"
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value, ToolRankError)


def test_it_is_a_retriever_with_a_name(documents):
    retriever = BM25Retriever(documents, table="docs_fts")
    assert isinstance(retriever, Retriever)
    assert retriever.name == "bm25"
    assert BM25Retriever(documents, table="docs_fts", name="titles").name == "titles"
