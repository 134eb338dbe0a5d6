"""Vectors in memory: the same hits as by sqlite-vec, and later states that share their memory."""

import math
import random
import sys
import tracemalloc
from array import array

import apsw
import pytest
import sqlite_vec
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Filter, IdColumn, MatrixRetriever
from toolrank._vectors import VectorRetriever
from toolrank.errors import RetrievalError

COUNT = 700
ROWS = "SELECT rowid, embedding FROM docs_vec"
CONTENT = IdColumn(table="docs", column="id")
vectors = st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=8)


def blob(*values):
    return array("f", values).tobytes()


@pytest.fixture(scope="module")
def table():
    """A vec0 table of several chunks, some of which have lost rows."""
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(
        "CREATE VIRTUAL TABLE docs_vec USING vec0 "
        "(embedding float[8] distance_metric=cosine, chunk_size=64)"
    )
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE, kind INTEGER)")
    rng = random.Random(7)
    for rowid in range(1, COUNT + 1):
        values = blob(*(rng.gauss(0, 1) for _ in range(8)))
        connection.execute("INSERT INTO docs_vec (rowid, embedding) VALUES (?, ?)", (rowid, values))
        connection.execute("INSERT INTO docs VALUES (?, ?)", (f"doc{rowid:04}", rowid % 7))
    for rowid in [*range(1, 130), *range(200, COUNT, 5)]:
        connection.execute("DELETE FROM docs_vec WHERE rowid = ?", (rowid,))
    yield connection
    connection.close()


@given(
    vector=vectors.filter(lambda v: math.hypot(*v) > 1e-3),
    depth=st.integers(1, COUNT),
    kinds=st.none() | st.sets(st.integers(0, 6)),
)
def test_both_retrievers_find_the_same_hits(table, vector, depth, kinds):
    where = None
    if kinds is not None:
        marks = ", ".join("?" for _ in kinds)
        sql = f"SELECT rowid FROM docs WHERE kind IN ({marks})"
        where = Filter(sql=sql, parameters=tuple(kinds))
    knn = VectorRetriever(table, "docs_vec", content=CONTENT, where=where)
    expected = knn.nearest(vector, depth=depth)
    held = MatrixRetriever(table, ROWS, content=CONTENT).using(table, where=where)
    found = held.nearest(vector, depth=depth)
    # Floats are summed in another order, so the last digits may differ and near ties may swap.
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-5)
    scores = {hit.id: hit.score for hit in expected}
    for hit in found[: len(found) // 2]:
        assert hit.id in scores or hit.score == pytest.approx(found[-1].score, abs=1e-5)


def test_reading_vectors_takes_little_more_memory_than_twice_what_they_have():
    connection = apsw.Connection(":memory:")
    rows = (
        "WITH RECURSIVE each (row) AS (SELECT 1 UNION ALL SELECT row + 1 FROM each LIMIT 8000) "
        "SELECT row, ? FROM each"
    )
    MatrixRetriever(connection, rows, [blob(1.0, *[0.0] * 255)])
    tracemalloc.start()
    held = MatrixRetriever(connection, rows, [blob(1.0, *[0.0] * 255)])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2.2 * 8000 * 4 * 256
    assert len(held.nearest([1.0] * 256, depth=3)) == 3


changes = st.lists(st.tuples(st.integers(1, 40), st.none() | vectors), max_size=60)


@given(states=st.lists(changes, min_size=2, max_size=6))
def test_a_later_state_finds_what_is_found_when_all_is_read_again(states):
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE near (row INTEGER PRIMARY KEY, vector BLOB, version INTEGER)")
    queries = [[float(n == m) for n in range(8)] for m in range(8)]
    held, answers, version = None, [], 0
    for changed in states:
        for row, vector in changed:
            connection.execute("DELETE FROM near WHERE row = ?", (row,))
            if vector is not None:
                version += 1
                values = row, blob(*vector), version
                connection.execute("INSERT INTO near VALUES (?, ?, ?)", values)
        sql, versions = "SELECT row, vector FROM near", "SELECT row, version FROM near"
        held = MatrixRetriever(connection, sql, versions=versions, previous=held)
        fresh = MatrixRetriever(connection, sql)
        for query in queries:
            assert held.nearest(query, depth=99) == fresh.nearest(query, depth=99)
        answers.append((held, [held.nearest(query, depth=99) for query in queries]))
    # States that are still in use have not changed.
    for state, found in answers:
        assert [state.nearest(query, depth=99) for query in queries] == found
    connection.close()


def test_only_changed_rows_are_read_for_a_later_state(connection):
    read = []
    register = getattr(connection, "create_scalar_function", None) or (
        lambda name, function, count: connection.create_function(name, count, function)
    )
    register("seen", lambda row: read.append(row) or row, 1)
    connection.execute("CREATE TABLE near (row INTEGER PRIMARY KEY, vector BLOB, version INTEGER)")
    for row in range(1, 6):
        values = row, blob(1, row), row
        connection.execute("INSERT INTO near VALUES (?, ?, ?)", values)
    options = {"versions": "SELECT row, version FROM near"}
    sql = "SELECT row, CASE WHEN seen(row) THEN vector END FROM near"
    first = MatrixRetriever(connection, sql, **options)
    assert sorted(set(read)) == [1, 2, 3, 4, 5]
    read.clear()
    connection.execute("UPDATE near SET vector = ?, version = 9 WHERE row = 3", (blob(0, 1),))
    connection.execute("DELETE FROM near WHERE row = 5")
    later = MatrixRetriever(connection, sql, **options, previous=first)
    assert set(read) == {3}
    assert [hit.id for hit in later.nearest((0, 1), depth=9)] == ["3", "4", "2", "1"]
    assert [hit.id for hit in first.nearest((0, 1), depth=9)] == ["5", "4", "3", "2", "1"]


def test_vectors_that_are_multiplied_together_have_the_same_hits_as_alone(table):
    held = MatrixRetriever(table, ROWS)
    first, *others = ([n, 1, 0, 0, 0, 0, 0, -n] for n in range(3))
    for vector, then in ((first, others), (others[0], ()), (others[1], ())):
        alone = held.using(table).nearest(vector, depth=50)
        assert held.nearest(vector, depth=50, then=then) == alone


def test_rows_that_are_no_vectors_are_an_error(connection):
    lengths = f"SELECT 1, x'{'00' * 8}' UNION ALL SELECT 2, x'{'00' * 4}'"
    for sql in ("SELECT 1, x'000000'", "SELECT * FROM nowhere", "SELECT 1, 'text'", lengths):
        with pytest.raises(RetrievalError):
            MatrixRetriever(connection, sql)


def test_no_rows_find_nothing(connection):
    held = MatrixRetriever(connection, "SELECT 1, x'00' WHERE 0")
    assert held.nearest((1, 0), depth=3) == []


def test_a_row_missing_from_its_content_table_is_left_out(store_vectors):
    connection = store_vectors({1: (1, 0), 2: (0, 1)})
    connection.execute("CREATE TABLE docs (id TEXT)")
    connection.execute("INSERT INTO docs (rowid, id) VALUES (2, 'up')")
    held = MatrixRetriever(connection, ROWS, content=CONTENT)
    assert [hit.id for hit in held.nearest((1, 0), depth=3)] == ["up"]


def test_without_numpy_the_error_is_immediate(monkeypatch, connection):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ModuleNotFoundError, match=r"numpy.*; install"):
        MatrixRetriever(connection, ROWS)
