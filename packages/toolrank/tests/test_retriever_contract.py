"""Every retriever in the package keeps the contract, and the kit rejects one that breaks it."""

import pytest
from toolrank import (
    BM25Retriever,
    Filter,
    FullTextTable,
    IdColumn,
    MatrixRetriever,
    PostingsCache,
    Query,
    VectorRetriever,
    name_key,
)
from toolrank._names import NameRetriever
from toolrank.testing import check_retriever

from .lexical import bm25, fuzzy

CONTENT = IdColumn(table="docs", column="id")
SOME = Filter(sql="SELECT rowid FROM docs WHERE id LIKE ?", parameters=("github:%",))
TEXTS = ("list the issues of a repository", "merge send create", "issue", "nothing of it")
QUERIES = [Query(text=text, vector=(0.6, 0.8)) for text in TEXTS]
ROWS = "SELECT rowid, embedding FROM docs_vec"
VECTORS = {1: (1, 0), 2: (0, 1), 3: (-1, 0.5), 4: (1, 0)}

options = pytest.mark.parametrize(
    "options",
    [{}, {"content": CONTENT}, {"content": CONTENT, "where": SOME}],
    ids=["rowids", "ids", "filtered"],
)


@options
def test_the_bm25_retriever_keeps_the_contract(documents, options):
    check_retriever(bm25(documents, table="docs_fts", weights=(3.0, 1.0), **options), QUERIES)


def test_the_bm25_retriever_with_a_cache_keeps_the_contract(documents):
    postings = PostingsCache()
    check_retriever(bm25(documents, table="docs_fts", postings=postings), QUERIES)


@options
@pytest.mark.parametrize("remembered", [lambda: None, PostingsCache], ids=["no cache", "cache"])
def test_the_fuzzy_retriever_keeps_the_contract(documents, options, remembered):
    queries = [*QUERIES, Query(text="creat isu"), Query(text="repo"), Query(text="sendmail")]
    check_retriever(fuzzy(documents, table="docs_fts", postings=remembered(), **options), queries)


@pytest.mark.parametrize("where", [None, SOME])
def test_the_name_retriever_keeps_the_contract(documents, where):
    documents.execute("ALTER TABLE docs ADD COLUMN key TEXT")
    for (id_,) in list(documents.execute("SELECT id FROM docs")):
        key = name_key(id_.partition(":")[2])
        documents.execute("UPDATE docs SET key = ? WHERE id = ?", (key, id_))
    names = NameRetriever(documents, content=CONTENT, keys=["key"], where=where)
    check_retriever(
        names, [Query(text="create issue"), Query(text="list_issues, then createIssue")]
    )


@options
def test_the_vector_retrievers_keep_the_contract(documents, store_vectors, options):
    connection = store_vectors(VECTORS)
    check_retriever(VectorRetriever(connection, table="docs_vec", **options), QUERIES)
    check_retriever(MatrixRetriever(connection, ROWS, **options), QUERIES)


class Watched:
    """A connection that counts how often a filter is evaluated."""

    def __init__(self, connection):
        self.connection = connection
        self.asked = 0

    def execute(self, sql, parameters=()):
        self.asked += SOME.sql in sql
        return self.connection.execute(sql, parameters)


@pytest.mark.parametrize(
    "make",
    [
        lambda c, **o: bm25(c, table="docs_fts", **o),
        lambda c, **o: fuzzy(c, table="docs_fts", **o),
        lambda c, **o: NameRetriever(c, keys=["id"], **o),
        lambda c, **o: MatrixRetriever(c, ROWS, **o),
    ],
    ids=["bm25", "fuzzy", "names", "matrix"],
)
def test_a_filter_with_known_rows_finds_the_same_hits_without_a_query(
    documents, store_vectors, make
):
    watched = Watched(store_vectors(VECTORS))
    rows = {row for (row,) in documents.execute(SOME.sql, SOME.parameters)}
    known = Filter(sql=SOME.sql, parameters=SOME.parameters, rows=rows)
    queries = [*QUERIES, Query(text="github:create_issue", vector=(1.0, 0.0))]

    def found(where):
        retriever = make(watched, content=CONTENT, where=where)
        return [retriever.retrieve(query, depth=10) for query in queries]

    asked = found(SOME)
    assert any(asked)
    assert watched.asked
    watched.asked = 0
    assert found(known) == asked
    assert watched.asked == 0
    assert found(Filter(sql=SOME.sql, parameters=SOME.parameters, rows=set())) == [[]] * 5


class WorstFirst(BM25Retriever):
    def retrieve(self, query, *, depth):
        return super().retrieve(query, depth=depth)[::-1]


def test_the_kit_names_the_promise_that_a_retriever_breaks(documents):
    with pytest.raises(AssertionError, match="the best hits must come first"):
        check_retriever(WorstFirst(FullTextTable(documents, table="docs_fts")), QUERIES)
