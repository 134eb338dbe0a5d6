"""Both vector retrievers return the same hits, even after rows were added and deleted."""

import math
import random
import sys
from array import array
from itertools import product

import apsw
import numpy as np
import pytest
import sqlite_vec
from hypothesis import given
from hypothesis import strategies as st
from toolrank import Content, Filter, NumpyVectorRetriever, Query, VectorRetriever
from toolrank.errors import RetrievalError
from toolrank.steps import VectorRows

ROWS = 700


@pytest.fixture(scope="module")
def table():
    """A table of several chunks, some of which have lost rows."""
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(
        "CREATE VIRTUAL TABLE docs_vec USING vec0 "
        "(embedding float[8] distance_metric=cosine, chunk_size=64)"
    )
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE, kind INTEGER)")
    rng = random.Random(7)
    for rowid in range(1, ROWS + 1):
        values = [rng.gauss(0, 1) for _ in range(8)]
        blob = array("f", [value / math.hypot(*values) for value in values]).tobytes()
        connection.execute("INSERT INTO docs_vec (rowid, embedding) VALUES (?, ?)", (rowid, blob))
        connection.execute("INSERT INTO docs VALUES (?, ?)", (f"doc{rowid:04}", rowid % 7))
    for rowid in [*range(1, 130), *range(200, ROWS, 5)]:
        connection.execute("DELETE FROM docs_vec WHERE rowid = ?", (rowid,))
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def matrices(table):
    """Return what can be cached of the table: nothing, everything, or one byte per dimension."""
    whole = NumpyVectorRetriever(table, table="docs_vec")
    return None, whole.read_matrix(), whole.read_bytes()


CONTENT = Content(table="docs", column="id")
vectors = st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=8)


@given(
    vector=vectors.filter(lambda v: math.hypot(*v) > 1e-3),
    depth=st.integers(1, ROWS),
    kinds=st.none() | st.sets(st.integers(0, 6)),
)
def test_both_retrievers_find_the_same_hits(table, matrices, vector, depth, kinds):
    where = None
    if kinds is not None:
        marks = ", ".join("?" for _ in kinds)
        sql = f"SELECT rowid FROM docs WHERE kind IN ({marks})"
        where = Filter(sql=sql, parameters=tuple(kinds))
    options = {"table": "docs_vec", "content": CONTENT, "where": where}
    query = Query(text="", vector=vector)
    expected = VectorRetriever(table, **options).retrieve(query, depth=depth)
    for unit_length, read in product((False, True), matrices):
        retriever = NumpyVectorRetriever(table, unit_length=unit_length, matrix=read, **options)
        found = retriever.retrieve(query, depth=depth)
        # Floats are summed in another order, so the last digits may differ and near ties may swap.
        assert [hit.score for hit in found] == pytest.approx(
            [hit.score for hit in expected], abs=1e-5
        )
        scores = {hit.id: hit.score for hit in expected}
        for hit in found[: len(found) // 2]:
            assert hit.id in scores or hit.score == pytest.approx(found[-1].score, abs=1e-5)


@given(
    vector=vectors.filter(lambda v: math.hypot(*v) > 1e-3),
    depth=st.integers(1, ROWS),
    kinds=st.none() | st.just([0, 3]),
)
def test_vectors_in_ordinary_rows_are_found_like_those_of_a_vector_table(
    table, vector, depth, kinds
):
    rows = VectorRows(
        "SELECT rowid, embedding FROM docs_vec WHERE rowid > ? ORDER BY rowid DESC", (0,)
    )
    sql = "SELECT rowid FROM docs WHERE kind IN (0, 3)"
    where = None if kinds is None else Filter(sql=sql, parameters=())
    query = Query(text="", vector=vector)
    found = {}
    for source in ("docs_vec", rows):
        whole = NumpyVectorRetriever(table, table=source)
        for matrix in (None, whole.read_matrix(), whole.read_bytes()):
            retriever = NumpyVectorRetriever(
                table, table=source, matrix=matrix, content=CONTENT, where=where
            )
            found[source, type(matrix)] = retriever.retrieve(query, depth=depth)
    assert len(set(map(str, found.values()))) == 1


def test_a_search_of_no_rows_finds_nothing(connection):
    rows = VectorRows("SELECT 1, x'00' WHERE 0")
    retriever = NumpyVectorRetriever(connection, table=rows)
    assert retriever.retrieve(Query(text="", vector=(1, 0)), depth=3) == []
    assert len(retriever.read_matrix().rowids) == 0
    nothing = NumpyVectorRetriever(connection, table=rows, matrix=retriever.read_bytes())
    assert nothing.retrieve(Query(text="", vector=(1, 0)), depth=3) == []


def test_rows_without_vectors_are_an_error(connection):
    for sql in ("SELECT 1, x'000000'", "SELECT * FROM nowhere", "SELECT 1, 'text'"):
        retriever = NumpyVectorRetriever(connection, table=VectorRows(sql))
        with pytest.raises(RetrievalError):
            retriever.retrieve(Query(text="", vector=(1, 0)), depth=3)
        with pytest.raises(RetrievalError):
            retriever.read_matrix()
        with pytest.raises(RetrievalError):
            retriever.read_bytes()


@given(seed=st.integers(0, 1 << 32), spread=st.floats(0, 1), depth=st.integers(1, 60))
def test_one_byte_per_dimension_is_enough_to_find_the_nearest_of_similar_vectors(
    table, seed, spread, depth
):
    """Even if their bytes are equal: bytes only select candidates, which are compared exactly."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(16) + spread * rng.standard_normal((500, 16))
    values = [(n, row.astype("<f4").tobytes()) for n, row in enumerate(rows)]
    table.execute("CREATE TEMP TABLE near (number INTEGER PRIMARY KEY, vector BLOB)")
    try:
        table.executemany("INSERT INTO near VALUES (?, ?)", values)
        source = VectorRows("SELECT number, vector FROM near")
        exact = NumpyVectorRetriever(table, table=source)
        fast = NumpyVectorRetriever(table, table=source, matrix=exact.read_bytes())
        query = Query(text="", vector=rng.standard_normal(16).tolist())
        assert fast.retrieve(query, depth=depth) == exact.retrieve(query, depth=depth)
    finally:
        table.execute("DROP TABLE near")


def test_equal_rows_with_the_first_ids_are_kept(store_vectors):
    connection = store_vectors(dict.fromkeys(range(1, 200), (1, 0)))
    retriever = NumpyVectorRetriever(connection, table="docs_vec")
    found = retriever.retrieve(Query(text="", vector=(1, 0)), depth=3)
    assert [hit.id for hit in found] == ["1", "10", "100"]


def test_an_empty_table_finds_nothing(store_vectors):
    connection = store_vectors({1: (1, 0)})
    connection.execute("DELETE FROM docs_vec")
    retriever = NumpyVectorRetriever(connection, table="docs_vec")
    assert retriever.retrieve(Query(text="", vector=(1, 0)), depth=3) == []
    for matrix in (retriever.read_matrix(), retriever.read_bytes()):
        retriever = NumpyVectorRetriever(connection, table="docs_vec", matrix=matrix)
        assert retriever.retrieve(Query(text="", vector=(1, 0)), depth=3) == []


def test_a_missing_table_is_an_error(connection):
    with pytest.raises(RetrievalError):
        NumpyVectorRetriever(connection, table="docs_vec").read_matrix()


def test_a_row_missing_from_its_content_table_is_left_out(store_vectors):
    connection = store_vectors({1: (1, 0), 2: (0, 1)})
    connection.execute("CREATE TABLE docs (id TEXT)")
    connection.execute("INSERT INTO docs (rowid, id) VALUES (2, 'up')")
    retriever = NumpyVectorRetriever(connection, table="docs_vec", content=CONTENT)
    found = retriever.retrieve(Query(text="", vector=(1, 0)), depth=3)
    assert [hit.id for hit in found] == ["up"]


def test_without_numpy_the_error_is_immediate(monkeypatch, connection):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ModuleNotFoundError, match=r"numpy.*; install"):
        NumpyVectorRetriever(connection, table="docs_vec")


@pytest.mark.parametrize("column", ["int8[8]", "bit[64]"])
def test_vectors_that_are_not_floats_are_refused(load_vec, column):
    """If their sizes matched, they would silently be read as floats."""
    load_vec.execute(f"CREATE VIRTUAL TABLE docs_vec USING vec0 (embedding {column})")
    retriever = NumpyVectorRetriever(load_vec, table="docs_vec")
    with pytest.raises(RetrievalError, match="float32"):
        retriever.retrieve(Query(text="", vector=(1.0, 0.0)), depth=3)
