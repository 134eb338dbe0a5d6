"""Lexical retrieval over a real FTS5 table, through both drivers."""

import math
from contextlib import closing
from threading import get_ident

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolrank import Filter, IdColumn, PostingsCache, ToolRankError
from toolrank._query import match_expression, query_terms, quoted_phrases
from toolrank.errors import RankingArgumentError, RetrievalError

from .lexical import bm25

CONTENT = IdColumn(table="docs", column="id")


def find(connection, text, *, depth=10, **options):
    return bm25(connection, **options).retrieve(text, depth=depth)


def ids(hits):
    return [hit.id for hit in hits]


def test_a_query_finds_rows_with_only_some_of_its_words(documents):
    found = find(documents, "please merge my two documents", content=CONTENT)
    assert ids(found) == ["pdf:merge"]


@pytest.mark.parametrize("text", ["createIssue", "create_issue", "creating issues", "CREATE-ISSUE"])
def test_spellings_of_a_name_find_it(documents, text):
    assert ids(find(documents, text, content=CONTENT))[0] == "github:create_issue"


def test_column_weights_change_the_ranking(connection):
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
        bm25(documents, table=name)
    for content in (IdColumn(table=name, column="id"), IdColumn(table="docs", column=name)):
        with pytest.raises(RankingArgumentError, match="plain SQL identifier"):
            bm25(documents, content=content)


@pytest.mark.parametrize("table", ["missing", "docs"])
def test_a_missing_or_ordinary_table_is_a_retrieval_error(documents, table):
    retriever = bm25(documents, table=table, name="words")
    with pytest.raises(RetrievalError, match="Check that its table exists") as caught:
        retriever.retrieve("merge", depth=5)
    assert caught.value.retriever == "words"
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value, ToolRankError)


WORDS = ["merge", "pdf", "files", "send", "mail", "issue", "issues", "create", "list", "open"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
REQUESTS = st.lists(
    st.sampled_from([*WORDS, '"create issue"', '"send mail"', "createIssue", "absent"]), max_size=8
).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12)


def table_of(rows):
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE docs_fts USING fts5 (name, text, tokenize = 'porter unicode61')"
    )
    connection.executemany("INSERT INTO docs_fts (name, text) VALUES (?, ?)", rows)
    return connection


@given(ROWS, REQUESTS, st.integers(1, 5))
@example([("create issue", "")] * 3, 'create "create issue"', 2)
def test_scores_equal_those_of_fts5_for_all_terms(rows, text, depth):
    """The scores of single terms add up to SQLite's score for all of them."""
    expression = match_expression([*query_terms(text), *quoted_phrases(text)])
    with closing(table_of(rows)) as connection:
        sql = "SELECT rowid, -bm25(docs_fts, 3, 1) FROM docs_fts WHERE docs_fts MATCH ?"
        expected = dict(connection.execute(sql, (expression,))) if expression else {}
        found = find(connection, text, depth=len(rows), weights=(3, 1), max_df=1)
        assert {int(hit.id): hit.score for hit in found} == pytest.approx(expected, abs=1e-9)
        first = find(connection, text, depth=depth, weights=(3, 1), max_df=1)
        assert first == found[:depth]


@given(ROWS, st.lists(REQUESTS, max_size=4))
def test_cached_postings_do_not_change_the_answer(rows, texts):
    postings = PostingsCache()
    with closing(table_of(rows)) as connection:
        for text in [*texts, *texts]:
            options = {"weights": (3, 1), "correction_weight": 0.7}
            fresh = find(connection, text, **options)
            assert find(connection, text, postings=postings, **options) == fresh


def padded(connection, common, rare, total=1000):
    """Return a table in which some rows contain `common` and fewer contain `rare`."""
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
    for row in range(total):
        words = [f"row{row}"]
        words += ["common"] * (row < common) + ["rare"] * (row >= total - rare)
        connection.execute("INSERT INTO docs_fts VALUES (?)", (" ".join(words),))
    return connection


def test_a_term_in_too_many_rows_is_skipped_if_there_is_a_rarer_one(connection):
    table = padded(connection, common=400, rare=3)
    assert len(find(table, "common rare", depth=1000)) == 3
    assert len(find(table, "common", depth=1000)) == 400
    assert len(find(table, "common absent", depth=1000)) == 400
    assert len(find(table, "common rare", depth=1000, max_df=0.5)) == 403


def test_a_term_in_a_hundred_rows_is_never_skipped(connection):
    table = padded(connection, common=100, rare=3, total=110)
    assert len(find(table, "common rare", depth=1000, max_df=0.0)) == 103


def test_a_table_without_column_sizes_is_searched_too(connection):
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text, columnsize = 0)")
    connection.execute("INSERT INTO docs_fts VALUES ('merge'), ('x'), ('y')")
    assert ids(find(connection, "merge")) == ["1"]


def test_a_term_that_was_skipped_is_read_when_it_is_needed(connection):
    table, postings = padded(connection, common=400, rare=3), PostingsCache()
    for text, rows, share in [
        ("common rare", 3, 0.3),
        ("common", 400, 0.3),
        ("common rare", 3, 0.3),
        ("common rare", 403, 0.5),
    ]:
        found = find(table, text, depth=1000, postings=postings, max_df=share)
        assert len(found) == rows
    postings = PostingsCache()
    find(table, "common rare", postings=postings, max_df=0.3)
    assert len(find(table, "common rare", depth=999, postings=postings, max_df=0.5)) == 403


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *[("max_df", -0.1), ("max_df", math.nan), ("damping", 0.0), ("damping", 1.5)],
        *[("correction_weight", -1.0), ("synonym_weight", math.nan)],
    ],
)
def test_numbers_that_scores_cannot_be_computed_with_are_refused(documents, argument, value):
    with pytest.raises(RankingArgumentError) as caught:
        bm25(documents, **{argument: value})
    assert caught.value.argument == argument


def test_a_row_with_the_quoted_phrase_ranks_first(connection):
    connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
    for text in ("request pull merge", "merge pull request", "x", "y", "z", "v", "w"):
        connection.execute("INSERT INTO docs_fts VALUES (?)", (text,))
    assert ids(find(connection, "merge pull request")) == ["1", "2"]
    assert ids(find(connection, 'the "merge pull request" one')) == ["2", "1"]


def test_a_row_missing_from_the_content_table_is_not_found(documents):
    documents.execute("DELETE FROM docs WHERE id = 'pdf:merge'")
    assert find(documents, "merge", content=CONTENT) == []


class TestMisspeltWords:
    def test_misspelt_words_find_the_intended_rows(self, documents):
        """Without any model, from words alone."""
        found = find(documents, "creat isue", content=CONTENT, correction_weight=0.7)
        assert ids(found)[0] == "github:create_issue"
        assert find(documents, "isue", content=CONTENT) == []

    def test_a_correction_counts_less_than_the_word_itself(self, documents):
        (right,) = find(documents, "attachments")
        (wrong,) = find(documents, "atachments", correction_weight=0.7)
        assert wrong.score == pytest.approx(0.7 * right.score)

    @pytest.mark.parametrize(
        ("text", "found"),
        [("gcal", []), ("set gcal", ["1"]), ("gaol", ["1"]), ("set goul", ["1"]), ("goul", [])],
    )
    def test_a_short_word_is_only_corrected_with_evidence(self, connection, text, found):
        """It may be an acronym: its letters, or another word of the request, have to fit."""
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
        for row in ("set a goal", *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (row,))
        hits = ids(find(connection, text, correction_weight=0.7))
        assert hits == found
        corrections = bm25(connection, correction_weight=0.7).corrections(text)
        assert ("goal" in corrections.values()) == ("gcal" not in text and found != [])

    @pytest.mark.parametrize(
        ("text", "row", "other"),
        [
            ("merge MR 4", "merge request", "merge"),
            ("sign in", "login", "sign"),
            ("log me into it", "login", "log"),
            ("pull requests", "PRs of a branch", "pull"),
        ],
    )
    def test_another_name_of_a_thing_is_found_and_counts_as_covered(
        self, connection, text, row, other
    ):
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text, tokenize = porter)")
        for each in (other, row, *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (each,))
        options = {"table": "docs_fts", "synonym_weight": 0.7}
        assert "2" in ids(find(connection, text, synonym_weight=0.7))
        with_names = bm25(connection, **options).coverage(text, ["2"])["2"]
        assert with_names > bm25(connection).coverage(text, ["2"])["2"]

    def test_mister_and_small_letters_of_a_word_are_no_acronyms(self, connection):
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
        for row in ("merge request", "purchase order", *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (row,))
        assert find(connection, "Dear Mr Pott, po po", synonym_weight=0.7) == []
        assert ids(find(connection, "MR, PO", synonym_weight=0.7)) == ["1", "2"]

    def test_a_word_that_rows_contain_is_never_corrected(self, connection):
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text)")
        for text in ("form", "farm", *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (text,))
        assert ids(find(connection, "form", correction_weight=0.7)) == ["1"]

    @pytest.mark.parametrize(
        "text", ["open Isue", "ISUE", "isue2", "create xIsue", "open 名前isue2"]
    )
    def test_names_identifiers_and_acronyms_are_not_corrected(self, documents, text):
        retriever = bm25(documents, correction_weight=0.7)
        assert retriever.corrections(text) == {}

    def test_a_request_in_another_language_is_not_corrected(self, documents):
        text = "isue mesage repositry atachment"
        assert len(find(documents, text.rpartition(" ")[0], correction_weight=0.7)) == 3
        assert find(documents, text, correction_weight=0.7) == []

    def test_a_stem_that_can_be_stemmed_again_is_found(self, connection):
        """Porter's stem of "database" is "databas", and that of "databas" is "databa"."""
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text, tokenize = porter)")
        for text in ("database", *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (text,))
        assert ids(find(connection, "dtabase", correction_weight=0.7)) == ["1"]

    def test_a_term_without_a_word_that_stems_to_it_is_left_out(self, connection):
        """The stem of "gerosalll" is "gerosall", but no likely word has that stem."""
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text, tokenize = porter)")
        for text in ("gerosalll", *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (text,))
        assert find(connection, "gerosaxll", correction_weight=0.7) == []

    def test_a_correction_is_spelt_as_in_the_rows(self, documents):
        retriever = bm25(documents, correction_weight=0.7)
        found = retriever.corrections("list isues in my repositry")
        assert found == {"isues": "issues", "repositry": "repository"}
        assert retriever.corrections("list issues") == {}
        assert bm25(documents).corrections("isue") == {}

    def test_a_correction_is_the_nearest_word_even_if_others_are_more_common(self, connection):
        """Without its last letter, which may be a suffix, "crate" is just as close to "chat"."""
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5 (text, tokenize = porter)")
        for text in ("create", "chat", "chat", "chat", *"vwxyz"):
            connection.execute("INSERT INTO docs_fts VALUES (?)", (text,))
        retriever = bm25(connection, correction_weight=0.7)
        assert retriever.corrections("crate") == {"crate": "create"}

    def test_a_correction_from_a_contentless_table_is_a_stem(self, connection):
        connection.execute(
            "CREATE VIRTUAL TABLE docs_fts USING fts5 (text, content = '', tokenize = porter)"
        )
        connection.execute("INSERT INTO docs_fts (rowid, text) VALUES (1, 'issues'), (2, 'x')")
        retriever = bm25(connection, correction_weight=0.7)
        assert retriever.corrections("isue") == {"isue": "issu"}

    def test_a_vocabulary_that_cannot_be_read_is_a_retrieval_error(self, documents):
        name = f"toolrank_vocabulary_{get_ident()}"
        documents.execute(f"CREATE TEMP TABLE {name} (x)")
        with pytest.raises(RetrievalError, match=name):
            find(documents, "isue", correction_weight=0.7)


def test_the_scale_is_the_root_of_the_terms_times_the_log_of_the_rows(documents, connection):
    scale = bm25(documents).scale
    assert scale("merge pdf zebra") == pytest.approx(math.sqrt(3) * math.log(1 + 4))
    assert scale("mergeIssue") == pytest.approx(math.sqrt(2) * math.log(1 + 4))
    assert scale("") == 0.0
    connection.execute("CREATE VIRTUAL TABLE none_fts USING fts5 (text)")
    assert bm25(connection, table="none_fts").scale("merge") == 0.0


def test_evenness_raises_each_terms_score_to_a_power():
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE docs_fts USING fts5(words)")
        rows = ["pdf pdf pdf", "pdf merge", "merge", *["other words"] * 9]
        connection.executemany("INSERT INTO docs_fts VALUES (?)", [(row,) for row in rows])
        plain, even = find(connection, "pdf"), find(connection, "pdf", damping=0.5)

    idf = math.log((12 - 2 + 0.5) / (2 + 0.5))
    assert ids(even) == ids(plain)
    for before, after in zip(plain, even, strict=True):
        assert after.score == pytest.approx(idf * (before.score / idf) ** 0.5)


@pytest.mark.parametrize("detail", ["none", "column"])
def test_a_table_without_positions_is_searched_without_phrases(detail):
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE docs_fts USING fts5(words, detail={detail})")
        connection.execute("INSERT INTO docs_fts VALUES ('create issue'), ('other'), ('words')")
        quoted, plain = find(connection, '"create issue" now'), find(connection, "create issue now")
    assert ids(quoted) == ids(plain) == ["1"]


class TestMatches:
    def test_the_terms_contributions_sum_to_the_score(self, documents):
        text = 'list "issues" isues createIssue repository'
        retriever = bm25(documents, correction_weight=0.7, damping=0.75)
        hits = retriever.retrieve(text, depth=10)

        matches = retriever.matches(text, [hit.id for hit in hits])

        assert {hit.id: hit.score for hit in hits} == pytest.approx(
            {id_: sum(match.score for match in found) for id_, found in matches.items()}
        )
        assert all(
            list(found) == sorted(found, key=lambda match: -match.score)
            for found in matches.values()
        )

    def test_unrelated_and_missing_rows_have_no_matches(self, documents):
        retriever = bm25(documents)
        assert retriever.matches("zzzz", ["1"]) == {}
        assert retriever.matches("issue", ["999999", "no number", "²"]) == {}


class TestCoverage:
    def test_coverage_is_the_share_of_the_idf_of_a_rows_terms(self, documents):
        # With fewer rows, a word's frequency says little about it.
        one, none = (math.log(1 + (100 - n + 0.5) / (n + 0.5)) for n in (1, 0))
        two = math.log(1 + (100 - 2 + 0.5) / (2 + 0.5))
        ids = ["pdf:merge", "github:create_issue", "mail:send_mail", "gone"]
        found = bm25(documents, content=CONTENT).coverage("merge zebra issue", ids)
        whole = one + none + two
        assert found == pytest.approx(
            {"pdf:merge": one / whole, "github:create_issue": two / whole, "mail:send_mail": 0.0}
        )

    def test_a_misspelt_term_is_covered_by_its_correction(self, documents):
        retriever = bm25(documents, correction_weight=0.7)
        (first, *_) = retriever.retrieve("isues", depth=5)

        assert retriever.coverage("isues", [first.id]) == {first.id: 1.0}

    def test_unknown_words_can_count_as_partly_covered(self, documents):
        retriever = bm25(documents)
        (first, *_) = retriever.retrieve("issue", depth=5)

        def share(unknown):
            return retriever.coverage("issue qwzxplorf", [first.id], unknown=unknown)[first.id]

        assert 0 < share(0) < share(0.5) == pytest.approx((share(0) + 1) / 2)
        assert share(1) == pytest.approx(1)

    @pytest.mark.parametrize("rows", [1, 2, 5])
    def test_an_unknown_word_in_a_small_table_takes_no_more_than_its_share(self, connection, rows):
        connection.execute("CREATE VIRTUAL TABLE few_fts USING fts5 (text)")
        for _ in range(rows):
            connection.execute("INSERT INTO few_fts VALUES ('count the words of a text')")

        found = bm25(connection, table="few_fts").coverage("count words quickly", ["1"])

        assert 0.5 < found["1"] < 2 / 3
