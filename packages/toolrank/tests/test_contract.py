"""Candidates from tables keep the contract, and the kit rejects those that break it."""

import pytest
from toolrank import Filter, IdColumn, MatrixRetriever, Query, Tables, name_key
from toolrank.testing import check_candidates

CONTENT = IdColumn(table="docs", column="id")
SOME = Filter(sql="SELECT rowid FROM docs WHERE id LIKE ?", parameters=("github:%",))
TEXTS = ("list the issues of a repository", "merge send create", "issue", "creat isu", "sendmail")
QUERIES = [Query(text, (0.6, 0.8)) for text in (*TEXTS, "list_issues, then createIssue", "nothing")]
VECTORS = {1: (1, 0), 2: (0, 1), 3: (-1, 0.5), 4: (1, 0)}


class Watched:
    """A connection that counts how often a filter is evaluated."""

    def __init__(self, connection):
        self.connection = connection
        self.asked = 0

    def execute(self, sql, parameters=()):
        self.asked += SOME.sql in sql
        return self.connection.execute(sql, parameters)


@pytest.fixture
def tables(documents, store_vectors):
    """Return a function that makes tables of the documents, and the connection that they use."""
    watched = Watched(store_vectors(VECTORS))
    documents.execute("ALTER TABLE docs ADD COLUMN key TEXT")
    for (id_,) in list(documents.execute("SELECT id FROM docs")):
        key = name_key(id_.partition(":")[2])
        documents.execute("UPDATE docs SET key = ? WHERE id = ?", (key, id_))

    def make(where=None, content=CONTENT, matrix=False):
        vectors = "docs_vec"
        if matrix:
            held = MatrixRetriever(
                watched, "SELECT rowid, embedding FROM docs_vec", content=content
            )
            vectors = held.using(watched, where=where)
        keys = () if content is None else ["key"]
        return Tables(watched, "docs_fts", content=content, vectors=vectors, keys=keys, where=where)

    return make, watched


@pytest.mark.parametrize("matrix", [False, True], ids=["sqlite-vec", "in memory"])
@pytest.mark.parametrize(
    "options",
    [{"content": None}, {}, {"where": SOME}, {"where": SOME._replace(rows={1, 2})}],
    ids=["rowids", "ids", "filtered", "filtered by known rows"],
)
def test_tables_keep_the_contract(tables, options, matrix):
    make, _ = tables
    check_candidates(make(matrix=matrix, **options), QUERIES)


def test_a_filter_with_known_rows_finds_the_same_hits_without_a_query(tables):
    make, watched = tables

    def found(where):
        rows = make(where, matrix=True)
        channels = rows.lexical, rows.fuzzy
        return [
            [list(search(it.text, depth=9)) for it in QUERIES for search in channels],
            [rows.named(it.text) for it in QUERIES],
            rows.nearest((1.0, 0.0), depth=9),
        ]

    asked = found(SOME)
    assert any(map(any, asked))
    assert watched.asked
    watched.asked = 0
    assert found(SOME._replace(rows={1, 2})) == asked
    assert watched.asked == 0
    assert not any(map(any, found(SOME._replace(rows=set()))))


class WorstFirst(Tables):
    def lexical(self, query, *, depth):
        return super().lexical(query, depth=depth)[::-1]


class Failing(Tables):
    def fuzzy(self, query, *, depth):
        raise ValueError(query)


@pytest.mark.parametrize(
    ("kind", "promise"), [(WorstFirst, "the best hits must come first"), (Failing, "query raises")]
)
def test_the_kit_names_the_promise_that_is_broken(documents, kind, promise):
    with pytest.raises(AssertionError, match=promise):
        check_candidates(kind(documents, "docs_fts"), QUERIES)
    with pytest.raises(AssertionError, match="finds anything"):
        check_candidates(Tables(documents, "docs_fts"), [Query("zzzz")])
