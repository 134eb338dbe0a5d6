"""Vectors in use are never deleted; of the others, only the oldest beyond a generous limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex._connection import ConnectionPool
from toolindex._models import SPARES, prune


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    opened = ConnectionPool(tmp_path_factory.mktemp("pruning") / "search.db", read_only=False)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def fill(pool):
    """Fill the index with entries of these texts, and with vectors (model, text, stored at)."""

    def fill_index(texts, vectors, models=()):
        with pool.write() as connection:
            for table in ("entries", "embeddings", "models", "query_embeddings"):
                connection.execute(f"DELETE FROM {table}")
            connection.executemany(
                "INSERT INTO entries VALUES (NULL, ?, '', '', '', '', '', '', '', '[]', '[]', "
                "'', '', '', '', '', '', '', '', ?, 0, NULL, NULL, NULL, NULL, '[]', '')",
                [(f"a:b:{n}", text) for n, text in enumerate(texts)],
            )
            connection.executemany(
                "INSERT INTO embeddings (model_id, text_hash, stored_at, vector) "
                "VALUES (?, ?, ?, x'0000803f')",
                vectors,
            )
            connection.executemany(
                "INSERT INTO models (model_id, vec_table, dimensions, used_at) VALUES (?, ?, 1, 0)",
                models,
            )

    return fill_index


@pytest.fixture(scope="module")
def kept(pool):
    """Return the texts whose vectors a model keeps."""

    def texts(model_id):
        with pool.read() as connection:
            rows = connection.execute(
                "SELECT text_hash FROM embeddings WHERE model_id = ?", (model_id,)
            )
            return {text for (text,) in rows}

    return texts


def column(pool, sql):
    with pool.read() as connection:
        return [value for (value,) in connection.execute(sql)]


def test_the_oldest_surplus_vector_is_deleted(pool, fill, kept):
    others = [f"gone {n}" for n in range(SPARES + 1)]
    fill(["used"], [("m", text, float(n)) for n, text in enumerate([*others, "used"])])
    assert prune(pool) == 1
    assert kept("m") == {*others[1:], "used"}


def test_a_model_without_vectors_is_forgotten(pool, fill):
    fill(
        ["x"],
        [("kept", "x", 0.0), ("spare", "gone", 0.0)],
        [("kept", None), ("spare", None), ("searched", "entries_vec_1"), ("left", None)],
    )
    with pool.write() as connection:
        connection.execute(
            "INSERT INTO query_embeddings SELECT model_id, 'hash', x'', 0 FROM models"
        )
    assert prune(pool) == 0
    assert prune(pool) == 0
    for table in ("models", "query_embeddings"):
        models = column(pool, f"SELECT model_id FROM {table} ORDER BY 1")
        assert models == ["kept", "searched", "spare"]


def test_a_model_that_loses_its_last_vector_is_forgotten_at_once(pool, fill):
    fill([], [("m", "gone", 0.0)], [("m", None)])
    assert prune(pool, spares=0) == 1


def test_pruning_nothing_needs_no_write_permission(pool, fill):
    fill(["x"], [("m", "x", 0.0)], [("m", None)])
    reading = ConnectionPool(pool.path, read_only=True)
    try:
        assert prune(reading) == 0
    finally:
        reading.close()


TEXTS = st.integers(0, 12).map(str)


@given(
    entries=st.lists(TEXTS, max_size=4),
    vectors=st.lists(
        st.tuples(st.sampled_from("mno"), TEXTS, st.floats(0, 1e10)),
        unique_by=lambda vector: vector[:2],
        max_size=30,
    ),
    spares=st.integers(0, 6),
)
def test_the_newest_unused_vectors_are_kept_up_to_the_limit(
    pool, fill, kept, entries, vectors, spares
):
    fill(entries, vectors)
    room = max(spares, 2 * len(entries))
    forgotten = prune(pool, spares=spares)
    left = 0
    for model in "mno":
        ours = {text: at for model_id, text, at in vectors if model_id == model}
        others = sorted((t for t in ours if t not in entries), key=lambda t: (-ours[t], t))
        assert kept(model) == (ours.keys() & set(entries)) | set(others[:room])
        left += len(kept(model))
    assert left == len(vectors) - forgotten
    assert prune(pool, spares=spares) == 0
