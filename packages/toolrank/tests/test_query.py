"""A query's text becomes terms, and terms become a full-text query that is always valid."""

from contextlib import closing

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolrank import Query
from toolrank._query import MAX_TERMS, match_expression, query_terms, quoted_phrases


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("merge pdf files", ["merge", "pdf", "files"]),
        ("Merge the PDF", ["merge", "pdf"]),
        ("createIssue", ["createissue", "create", "issue"]),
        ("create_pull_request", ["create", "pull", "request"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("URLs", ["urls"]),
        ("listPDFs", ["listpdfs", "list", "pdfs"]),
        ("s3 upload", ["s3", "upload"]),
        ("utf8 decode2text", ["utf8", "utf", "decode2text", "decode", "text"]),
        ("github:create-issue", ["github", "create", "issue"]),
        ("pdf PDF Pdf", ["pdf"]),
        ("ﬁle", ["file"]),
        ("名前", ["名前"]),
        ("名", ["名"]),
        ("名前を変える", ["名前を変える", "名前", "前を", "を変", "変え", "える"]),
        ("PDF合并文件", ["pdf", "合并文件", "合并", "并文", "文件"]),
        ("파일 이름", ["파일", "이름"]),
        ("日本語한국어", ["日本語", "日本", "本語", "한국어", "한국", "국어"]),
        ("ไฟล์ใหม่", ["ไฟล์ใหม่", "ไฟ", "ฟล", "ลใ", "ให", "หม"]),
        ("ဖိုင် ឯកសារ ໄຟລ໌", ["ဖိုင်", "ဖင", "ឯកសារ", "ឯក", "កស", "សរ", "ໄຟລ໌", "ໄຟ", "ຟລ"]),
        ("?!… --", []),
    ],
)
def test_words_and_the_parts_of_identifiers_become_terms(text, terms):
    assert Query(text).terms == terms


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ('how to "merge pull request" now', ["merge pull request"]),
        (
            "“Create Issue” or «list issues» or `send-mail`",
            ["create issue", "list issues", "send mail"],
        ),
        ('"one" and "" and "?!"', []),
        ('"same words" "Same Words"', ["same words"]),
        ('an "open quote and the rest', []),
        ("it's mine and that's yours", []),
        (" ".join(f'"word number{n}x"' for n in range(9)), [f"word number{n}x" for n in range(4)]),
    ],
)
def test_phrases_are_quoted_text(text, phrases):
    assert quoted_phrases(text) == phrases


def test_stop_words_are_dropped_unless_nothing_remains():
    assert query_terms("could you please merge it") == ["merge"]
    assert query_terms("how are you") == ["how", "are", "you"]


def test_a_pasted_document_is_truncated_not_refused():
    words = [f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(500)]
    assert query_terms(" ".join(words)) == words[:MAX_TERMS]


@given(st.text(st.characters(codec=None)))
@example("word\0word")
@example("\ud800")
def test_any_text_becomes_distinct_terms_without_spaces_or_quotes(text):
    terms = query_terms(text)
    assert len(set(terms)) == len(terms) <= MAX_TERMS
    assert all(term and not any(char.isspace() or char in '"\0' for char in term) for term in terms)


def test_a_compound_query_is_embedded_with_its_subqueries():
    query = Query.of("find the invoice and send it to Bob")
    assert query.texts == [query.text, "find the invoice", "send it to Bob"]
    vectors = [(1.0,), None, (3.0,)]
    whole = query.with_vectors(vectors)
    assert [whole.vector, *(each.vector for each in whole.subqueries)] == vectors
    assert Query.of("merge files") == Query("merge files")


def test_terms_are_quoted_and_joined_by_or():
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
