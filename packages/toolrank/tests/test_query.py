"""From what a user typed to terms, and from terms to a full-text query that is always valid."""

from contextlib import closing

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolrank import MAX_TERMS, STOP_WORDS, match_expression, query_terms

HOSTILE = [
    "",
    " ",
    '"',
    "''",
    "-",
    "a-b",
    "-x",
    "NOT",
    "a AND b OR NOT c",
    "NEAR(a b, 2)",
    "name:create",
    "C++",
    "don't",
    "(((",
    "a*",
    "^a",
    "{a b}: c",
    "null \0 byte",
    "\0",
    "\ud800",
    "lone \udfff surrogate",
    "🛠 emoji",
    "名前を変える",
    "e\u0301",
    "İstanbul",
    "x" * 100_000,
    "word " * 20_000,
    "'; DROP TABLE docs; --",
]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("merge pdf files", ["merge", "pdf", "files"]),
        ("Merge the PDF", ["merge", "pdf"]),
        ("createIssue", ["createissue", "create", "issue"]),
        ("create_pull_request", ["create", "pull", "request"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("s3 upload", ["s3", "upload"]),
        ("utf8 decode2text", ["utf8", "utf", "decode2text", "decode", "text"]),
        ("github:create-issue", ["github", "create", "issue"]),
        ("pdf PDF Pdf", ["pdf"]),
        ("ﬁle", ["file"]),
        ("名前", ["名前"]),
        ("?!… --", []),
    ],
)
def test_words_and_the_parts_of_identifiers_become_terms(text, terms):
    assert query_terms(text) == terms


def test_stop_words_are_dropped_unless_nothing_else_is_left():
    assert query_terms("could you please merge it") == ["merge"]
    assert query_terms("how are you") == ["how", "are", "you"]


def test_the_stop_words_can_be_replaced():
    assert query_terms("bitte merge the pdf", stop_words={"bitte"}) == ["merge", "the", "pdf"]
    assert "the" in STOP_WORDS


def test_a_pasted_document_is_cut_not_refused():
    words = [f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(500)]
    assert query_terms(" ".join(words)) == words[:MAX_TERMS]


@given(st.text(st.characters(codec=None)))
@example("word\0word")
@example("\ud800")
def test_any_text_gives_distinct_terms_of_letters_and_digits(text):
    terms = query_terms(text)
    assert len(set(terms)) == len(terms) <= MAX_TERMS
    assert all(term and not any(char.isspace() or char in '"\0' for char in term) for term in terms)


def test_terms_are_quoted_and_any_of_them_may_match():
    assert match_expression(["merge", "pdf"]) == '"merge" OR "pdf"'
    assert match_expression(['say "hi"']) == '"say ""hi"""'
    assert match_expression([]) == ""


@given(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=5))
@example(["AND", "NOT", "NEAR("])
@example(["\0"])
@example(["\ud800"])
def test_the_expression_of_any_terms_is_valid(terms):
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE docs USING fts5 (text)")
        connection.execute("INSERT INTO docs VALUES ('a document')")
        list(
            connection.execute("SELECT * FROM docs WHERE docs MATCH ?", (match_expression(terms),))
        )


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:24])
def test_no_query_text_is_a_syntax_error(documents, text):
    expression = match_expression(query_terms(text))
    if expression:
        list(documents.execute("SELECT * FROM docs_fts WHERE docs_fts MATCH ?", (expression,)))
