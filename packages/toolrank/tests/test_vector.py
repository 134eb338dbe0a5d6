"""Semantic retrieval over a real vec0 table."""

import math

import pytest
from toolrank import Filter, IdColumn, MatrixRetriever
from toolrank._vectors import VectorRetriever
from toolrank.errors import RankingArgumentError, RetrievalError


def in_memory(connection, table, *, where=None, **options):
    held = MatrixRetriever(connection, f"SELECT rowid, embedding FROM {table}", **options)
    return held.using(connection, where=where)


@pytest.fixture(params=[VectorRetriever, in_memory])
def find(request):
    """Search with each of the retrievers: `find(connection, vector)`."""

    def search(connection, vector, *, depth=10, **options):
        return request.param(connection, "docs_vec", **options).nearest(vector, depth=depth)

    return search


def ids(hits):
    return [hit.id for hit in hits]


def test_the_score_is_the_cosine(find, store_vectors):
    connection = store_vectors({1: (1, 0), 2: (1, 1), 3: (0, 2), 4: (-1, 0)})
    found = find(connection, (3, 0))
    assert ids(found) == ["1", "2", "3", "4"]
    assert [hit.score for hit in found] == pytest.approx([1, math.sqrt(0.5), 0, -1], abs=1e-6)


def test_the_length_of_the_query_vector_does_not_matter(find, store_vectors):
    """Not even if the values would overflow or underflow in 32 bits."""
    connection = store_vectors({1: (1, 0.5), 2: (0.5, 1)})
    for scale in (1e-320, 1e-60, 1.0, 1e60, 1e307):
        found = find(connection, (2 * scale, scale))
        assert [hit.score for hit in found] == pytest.approx([1, 0.8], abs=1e-6)


def test_a_vector_of_zeros_finds_nothing(find, store_vectors):
    connection = store_vectors({1: (1, 0)})
    assert find(connection, (0.0, 0.0)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_query_vector_that_is_not_finite_is_refused(find, store_vectors, value):
    connection = store_vectors({1: (1, 0)})
    with pytest.raises(RankingArgumentError, match="not finite") as caught:
        find(connection, (1.0, value))
    assert caught.value.argument == "vector"


def test_zero_vectors_are_not_found_and_do_not_count_towards_the_depth(find, store_vectors):
    nowhere = dict.fromkeys(range(1, 6), (0, 0)) | {6: (math.nan, 1)}
    connection = store_vectors(nowhere | {7: (1, 1), 8: (1, 0)})
    assert ids(find(connection, (1, 0))) == ["8", "7"]
    assert ids(find(connection, (1, 0), depth=2)) == ["8", "7"]


def test_a_filter_never_starves_the_result(find, store_vectors):
    """Five allowed rows, the farthest of a thousand, are all found by a search for five."""
    vectors = {rowid: (1, rowid / 1000) for rowid in range(1, 1001)}
    vectors |= {rowid: (-1, rowid / 1000) for rowid in range(200, 1001, 200)}
    connection = store_vectors(vectors)
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE, source TEXT)")
    for rowid in vectors:
        connection.execute(
            "INSERT INTO docs (rowid, id, source) VALUES (?, ?, ?)",
            (rowid, f"doc{rowid:04}", "other" if rowid % 200 else "mine"),
        )
    found = find(
        connection,
        (1, 0),
        depth=5,
        content=IdColumn(table="docs", column="id"),
        where=Filter(sql="SELECT rowid FROM docs WHERE source = ?", parameters=("mine",)),
    )
    assert sorted(ids(found)) == ["doc0200", "doc0400", "doc0600", "doc0800", "doc1000"]


@pytest.mark.parametrize("vector", [(1.0,), (1.0, 0.0, 0.0)])
def test_a_wrong_number_of_dimensions_is_a_retrieval_error(find, store_vectors, vector):
    connection = store_vectors({1: (1, 0)})
    with pytest.raises(RetrievalError, match="'vector' failed") as caught:
        find(connection, vector)
    assert caught.value.retriever == "vector"


def test_names_that_are_not_plain_identifiers_are_refused(connection):
    with pytest.raises(RankingArgumentError, match="vectors"):
        VectorRetriever(connection, "docs vec")
    with pytest.raises(RankingArgumentError, match="column"):
        VectorRetriever(connection, "docs_vec", column="embedding)")
