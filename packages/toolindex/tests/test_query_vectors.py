"""A repeated query needs no request to the model, and the cache of queries stays small."""

import time

import pytest
from toolindex import DatabaseError
from toolindex._connection import ConnectionPool
from toolindex._models import QueryVectors


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    opened = ConnectionPool(tmp_path_factory.mktemp("queries") / "search.db", read_only=False)
    yield opened
    opened.close()


@pytest.fixture
def vectors(pool):
    """An empty cache with room for three vectors per model."""
    with pool.write() as connection:
        connection.execute("DELETE FROM query_embeddings")
    return QueryVectors(pool, max_per_model=3)


def kept(vectors, model_id="m", queries="abcdefg"):
    return "".join(query for query in queries if vectors.get(model_id, query) is not None)


def test_putting_no_vectors_writes_nothing(pool):
    reading = ConnectionPool(pool.path, read_only=True)
    try:
        vectors = QueryVectors(reading)
        vectors.put("m", {})
        with pytest.raises(DatabaseError, match="read-only"):
            vectors.put("m", {"a": [1.0]})
    finally:
        reading.close()


def test_vectors_unused_for_longest_are_deleted_first(vectors):
    for query in "abc":
        vectors.put("m", {query: [1.0]})
    vectors.put("m", {}, used=["a"])
    vectors.put("m", {"d": [1.0]}, used=["c", "not kept"])
    assert kept(vectors) == "acd"
    vectors.put("n", {"e": [1.0]})
    vectors.put("m", {"f": [1.0]})
    assert kept(vectors) == "cdf"
    assert kept(vectors, "n") == "e"


def test_uses_with_a_future_date_do_not_displace_new_vectors(pool, vectors):
    vectors.put("m", {query: [1.0] for query in "abc"})
    with pool.write() as connection:
        connection.execute("UPDATE query_embeddings SET used_at = ?", (time.time() + 1e9,))
    for query in "def":
        vectors.put("m", {query: [1.0]})
    assert kept(vectors) == "def"


def test_a_query_is_kept_as_a_hash_only(pool, vectors):
    vectors.put("m", {"my secret": [1.0]})
    with pool.read() as connection:
        rows = connection.execute("SELECT model_id, query_hash FROM query_embeddings").fetchall()
    ((model_id, query_hash),) = rows
    assert model_id == "m"
    assert len(query_hash) == 64
    assert "secret" not in query_hash
