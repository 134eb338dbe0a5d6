"""`HybridSearch` over one's own tables: the whole pipeline, without knowing what the rows are."""

import pytest
from toolrank import RECOMMENDED_CONFIDENCE, HybridSearch, IdColumn, Query, Tables, name_key
from toolrank._records import UNITS
from toolrank.errors import RankingArgumentError, RetrievalError

ROWS = {
    "github:create_issue": ("create issue", "Open a new issue in a repository of GitHub.", (1, 0)),
    "github:list_issues": ("list issues", "List all the issues of a repository.", (0.9, 0.1)),
    "gitlab:create_issue": ("create issue", "Open a new issue in a project of GitLab.", (0.9, 0.2)),
    "mail:send_mail": ("send mail", "Send a message with some attachments to someone.", (0, 1)),
    "post:send_mail": ("send mail", "Send a message with some attachments to someone.", (0, 1)),
    "pdf:merge_files": ("merge files", "Merge several PDF files into a single one.", (0.5, -0.5)),
}


# The vectors of requests with one of these words.
VECTORS = {
    "issue": (1, 0),
    "mail": (0, 1),
    "colleague": (0, 1),
    "merge": (0.5, -0.5),
}


def embed(texts):
    return [next((VECTORS[word] for word in VECTORS if word in text), (-1, -1)) for text in texts]


def group(id_):
    return id_.rpartition(":")[0]


def name(id_):
    return id_.rpartition(":")[2]


@pytest.fixture
def rows(store_vectors):
    """A database with a full-text table, a table of vectors, and a table of names and texts."""
    connection = store_vectors({row: vector for row, (*_, vector) in enumerate(ROWS.values(), 1)})
    connection.execute("CREATE TABLE rows (id TEXT UNIQUE, key TEXT, text TEXT)")
    connection.execute(
        "CREATE VIRTUAL TABLE rows_fts USING fts5 (name, text, tokenize='porter unicode61')"
    )
    for row, (id_, (title, text, _)) in enumerate(ROWS.items(), 1):
        connection.execute(
            "INSERT INTO rows (rowid, id, key, text) VALUES (?, ?, ?, ?)",
            (row, id_, name_key(title), text),
        )
        connection.execute(
            "INSERT INTO rows_fts (rowid, name, text) VALUES (?, ?, ?)", (row, title, text)
        )
    return connection


def tables(connection, **options):
    content = IdColumn(table="rows", column="id")
    return Tables(connection, "rows_fts", weights=(5, 1), content=content, **options)


@pytest.fixture
def search(rows):
    whole = tables(rows, vectors="docs_vec", keys=["key"], text="text")
    return HybridSearch(whole, embed=embed, group=group, name=name)


def ids(results):
    return [result.id for result in results]


def test_words_and_meaning_find_rows_together(search):
    first, *_ = search.search("merge some pdf files")
    assert (first.id, first.match) == ("pdf:merge_files", "both")
    first, *_ = search.search("tell a colleague")
    assert (name(first.id), first.match) == ("send_mail", "meaning")
    assert {each.retriever for each in first.contributions} == {"vector"}


def test_a_misspelt_request_finds_and_embeds_the_word_that_was_meant(search):
    first, *_ = search.search("write a new isue")
    assert name(first.id) == "create_issue"
    assert first.match == "both"


def test_a_row_that_is_named_comes_first_with_the_highest_confidence(search):
    first, *_ = search.search("mergeFiles")
    assert (first.id, first.match, first.confidence) == ("pdf:merge_files", "exact", 0.99)
    assert first.score == first.confidence


def test_each_subquery_of_a_request_is_answered(search):
    found = search.search("create a new issue and merge several files")
    best = {result.id: result.explanation.subquery for result in found}
    assert (best["github:create_issue"], best["pdf:merge_files"]) == (0, 1)
    sure = [result for result in found if result.confidence >= RECOMMENDED_CONFIDENCE]
    assert {"github:create_issue", "pdf:merge_files"} <= {*ids(sure)}


def test_equal_rows_of_two_groups_are_one_result(search):
    found = search.search("send a message with attachments")
    assert [name(id_) for id_ in ids(found)].count("send_mail") == 1
    assert {found[0].id, *found[0].also} == {"mail:send_mail", "post:send_mail"}
    named, *_ = search.search("send a message with attachments by post")
    assert named.id == "post:send_mail"


def test_without_names_equal_rows_are_results_of_their_own(rows):
    found = ids(HybridSearch(tables(rows, text="text")).search("send a message"))
    assert {"mail:send_mail", "post:send_mail"} <= {*found}


def test_a_longer_answer_begins_with_the_shorter_one(search):
    whole = search.search("open an issue", limit=9)
    assert len(whole) > 2
    assert search.search("open an issue", limit=2) == whole[:2]


def test_what_no_row_answers_is_doubted(search):
    text = "weather in Paris"
    assert search.search(text)[0].confidence < RECOMMENDED_CONFIDENCE
    assert search.search(text, min_confidence=RECOMMENDED_CONFIDENCE) == []


def test_scores_decrease_and_begin_with_the_confidence(search):
    found = search.search("open an issue", limit=9)
    scores = [result.score for result in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == found[0].confidence


@pytest.mark.parametrize("text", ["", "\0", "\ud800", '" OR (', "the and of", "x" * 5_000])
def test_any_text_is_a_request(rows, text):
    assert isinstance(HybridSearch(tables(rows)).search(text), list)


def test_scores_are_fused_by_strength(search):
    rivals = search.search("open an issue", limit=9)
    weighted = [sum(UNITS[it.retriever] * it.score for it in each.contributions) for each in rivals]
    shares = [each.explanation.request for each in rivals]
    ratio = weighted[0] / shares[0]
    assert [share * ratio for share in shares] == pytest.approx(weighted)


def test_a_run_has_the_callers_own_vectors_weights_and_past_use(search, rows):
    whole = tables(rows, vectors="docs_vec", keys=["key"], text="text")
    query = Query("open an issue", (0.9, 0.2))
    usage = {"gitlab:create_issue": (0, 50)}
    plain, used = search.run(whole, query), search.run(whole, query, usage=usage)
    (own,) = (it for it in used.results if it.id in usage)
    assert own.explanation.usage == pytest.approx(0.92, abs=1e-3)
    assert {it.explanation.usage for it in plain.results} == {1.0}
    near = search.run(whole, query, weights={"vector": 1.0}).results
    assert {it.match for it in near} == {"meaning"}
    assert search.run(whole, query, weights={"fuzzy": 1.0}, limit=1).results[0].match == "fuzzy"
    lower = search.run(whole, query, deprecated={plain.results[0].id: ()}).results
    assert lower[0].id != plain.results[0].id


def test_a_rank_is_explained_by_the_row_before(search, rows):
    whole = tables(rows, vectors="docs_vec", keys=["key"], text="text")
    run = search.run(whole, Query("send a message", (0, 1)), limit=2)
    first, second = run.results
    told = run.explain_rank(second.id)
    assert (told.rank, told.results, told.same) == (2, (second, first), None)
    (equal,) = first.also
    assert run.explain_rank(equal).same == (1, first.id)
    far = run.explain_rank("pdf:merge_files")
    assert far.rank > 2
    assert [it.id for it in far.results] == ["pdf:merge_files", second.id]
    gone = run.explain_rank("no such row")
    assert (gone.rank, gone.results) == (None, (second,))


def test_what_cannot_be_searched_is_refused(rows):
    with pytest.raises(RankingArgumentError, match="candidates"):
        HybridSearch().search("merge")
    with pytest.raises(RankingArgumentError, match="limit"):
        HybridSearch(tables(rows)).search("merge", limit=0)
    with pytest.raises(RankingArgumentError, match="'bm25' has weight"):
        HybridSearch().run(tables(rows), Query("merge"), weights={"bm25": -1})
    with pytest.raises(RankingArgumentError, match="content"):
        Tables(rows, "rows_fts", keys=["key"])
    with pytest.raises(RetrievalError):
        HybridSearch(Tables(rows, "no_such_table")).search("merge")
