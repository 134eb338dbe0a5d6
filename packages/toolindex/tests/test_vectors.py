"""Vectors: checked before they are stored, kept by text, and searchable for each model."""

import math
import struct
import time
from contextlib import closing

import apsw
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toolindex import Coverage, ToolIndex, VectorError
from toolscan import ScanReport, scan

ONE = {"mcptools:mail:send": "Send a message."}
THREE = ONE | {"mcptools:mail:read": "Read a message.", "gentools:pdf:merge": "Merge files."}


def coverage(index, model_id="m"):
    with index.reading() as reader:
        return reader.coverage(model_id)


def nearest(index, vector, model_id="m"):
    blob = struct.pack(f"<{len(vector)}f", *vector)
    with index.reading() as reader:
        table = reader.vector_table(model_id).name
        rows = reader.connection.execute(
            f"SELECT e.id, n.distance FROM (SELECT rowid, distance FROM {table} "
            "WHERE embedding MATCH ? AND k = ? ORDER BY distance) AS n "
            "JOIN entries AS e ON e.rowid = n.rowid ORDER BY n.distance",
            (blob, 10),
        )
        return [(id_, round(distance, 5)) for id_, distance in rows]


@pytest.mark.parametrize(
    ("target", "id_"),
    [
        pytest.param("mcptools/post/send.py", "mcptools:post:send", id="another category"),
        pytest.param("mcptools/mail/deliver.py", "mcptools:mail:deliver", id="another name"),
        pytest.param("gentools/mail/send/api.py", "gentools:mail:send", id="another source"),
    ],
)
@pytest.mark.parametrize("model_ids", [("m",), ("m", "other")])
def test_a_file_that_is_moved_keeps_its_vectors(
    index, path, tmp_path, write_tool, check_sound, target, id_, model_ids
):
    root = tmp_path / "tools"
    file = write_tool(root, "mail", "send", "Send a message.")
    write_tool(root, "pdf", "merge", "Merge files.")
    index.sync(scan(root), reader_version="1")
    for model_id in model_ids:
        texts = index.pending(model_id, limit=9)
        angles = {"send": [1.0, 0.0], "merge": [0.0, 1.0]}
        index.put_vectors(
            model_id, {hash_: angles[text.split()[0]] for hash_, text in texts.items()}
        )
    moved = root / target
    moved.parent.mkdir(parents=True, exist_ok=True)
    file.rename(moved)
    index.sync(scan(root), reader_version="1")
    for model_id in model_ids:
        assert index.pending(model_id, limit=9) == {}
        assert nearest(index, [1.0, 0.0], model_id)[0] == (id_, 0.0)
    check_sound(path)


def test_a_pending_text_has_the_hash_it_is_listed_under(index, tmp_path, write_tool):
    """The scanner hashes the text, and the index builds the same text from its columns."""
    file = write_tool(tmp_path, "mail", "send", "Send a message.")
    declared = "__tags__ = ['post']\n__use_cases__ = ['write to Ada']\n"
    file.write_text(declared + file.read_text("utf-8"), encoding="utf-8")
    scanned = scan(tmp_path)
    index.sync(scanned, reader_version="1")
    (record,) = scanned.records
    assert record.parameters
    names = (p.alias or p.name for p in record.parameters)
    text = record.id.embedding_text(record.description, names, tags=record.tags)
    assert "post" in text
    assert "write to Ada" in text
    assert index.pending("m", limit=9) == {record.text_hash: text}


def test_a_refused_text_is_retried_within_a_minute_then_after_longer_delays(
    index, path, fill, monkeypatch
):
    fill(index, THREE)
    first, second, _ = index.pending("m", limit=3)
    now = time.time()
    day = 24 * 3600

    for times, seconds in enumerate([*[45 * 2**n for n in range(11)], day, day]):
        monkeypatch.setattr("time.time", lambda: now)  # noqa: B023 - called before the next one
        index.refuse("m", {first: f"too odd {times}", second: "too odd"})
        assert sorted(index.refused("m").values()) == ["too odd", f"too odd {times}"]
        now += seconds - 1
        assert index.count_pending("m") == len(index.pending("m", limit=9)) == 1
        now += 2
        assert index.count_pending("m") == len(index.pending("m", limit=9)) == 3
        assert index.refused("m") == {}


def test_a_text_refused_long_ago_starts_again_with_the_shortest_delay(index, fill, monkeypatch):
    fill(index, ONE)
    (only,) = index.pending("m", limit=1)
    now = time.time()
    for seconds in (0, 61, 31 * 24 * 3600):
        now += seconds
        monkeypatch.setattr("time.time", lambda: now)  # noqa: B023 - called before the next one
        index.refuse("m", {only: "too odd"})
    now += 61
    assert index.count_pending("m") == 1


def test_a_refusal_dated_in_the_future_does_not_count(index, durable, fill):
    fill(index, ONE)
    index.refuse("m", dict.fromkeys(index.pending("m", limit=1), "too odd"))
    with closing(apsw.Connection(str(durable))) as connection:
        connection.execute("UPDATE refusals SET at = at + 40 * 24 * 3600")
    assert index.count_pending("m") == 1


def test_a_text_that_changed_while_its_file_moved_loses_its_old_vector(index, make_record):
    old = make_record("mcptools:mail:send", "Old.", path="mcptools/mail/send.py")
    index.sync(ScanReport(records=(old,)), reader_version="1")
    for hash_ in index.pending("m", limit=1):
        index.put_vectors("m", {hash_: [1.0, 0.0]})
    # A copy is updated in portions, in which new paths come before old ones are removed.
    new = make_record("mcptools:mail:send", "New.", path="mcptools/mail/send/__init__.py")
    index.sync(ScanReport(records=(new,)), reader_version="1", within=[new.path])
    assert nearest(index, [1.0, 0.0]) == []
    assert coverage(index).vectors == 0


def test_a_model_unused_for_long_is_used_again_without_embedding(index, path, fill, check_sound):
    fill(index, THREE, model_id="old")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE models SET used_at = 0")
    fill(index, THREE, model_id="new")
    with index.reading() as reader:
        assert reader.vector_table("old") is None
    assert index.use_model("old")
    assert index.pending("old", limit=10) == {}
    assert coverage(index, "old") == Coverage(tools=3, vectors=3, dimensions=4)
    with index.reading() as reader:
        assert reader.vector_table("old") is not None
    check_sound(path)


def test_a_text_in_a_new_format_keeps_its_old_vector_until_the_new_one_is_stored(
    index, make_record, report
):
    """As after an upgrade: the files are the same, but the texts made from them differ."""
    old = make_record("mcptools:mail:send", "Send.", text_hash="old")
    new = make_record("mcptools:mail:send", "Send.", text_hash="new")
    index.sync(type(report({}))(records=(old,)), reader_version="1")
    index.put_vectors("m", {"old": [1.0, 0.0]})
    index.sync(type(report({}))(records=(new,)), reader_version="2")
    assert nearest(index, [1.0, 0.0]) == [("mcptools:mail:send", 0.0)]
    assert list(index.pending("m", limit=10)) == ["new"]
    index.put_vectors("m", {"new": [0.0, 1.0]})
    assert nearest(index, [0.0, 1.0]) == [("mcptools:mail:send", 0.0)]
    index.sync(type(report({}))(records=(old,)), reader_version="1")
    assert nearest(index, [1.0, 0.0]) == [("mcptools:mail:send", 0.0)]
    assert index.pending("m", limit=10) == {}


def test_vectors_that_changes_have_scattered_are_stored_together_again(
    index, path, fill, check_sound
):
    """sqlite-vec frees a chunk only when it is empty, and every search reads all chunks."""
    some = {f"mcptools:a:t{n:04}": f"Tool {n}." for n in range(12 * 256)}
    fill(index, some, model_id="m")
    few = {id_: some[id_] for id_ in [*some][::256]}
    fill(index, few)
    steady = {f"mcptools:a:steady_{n}": f"Steady {n}." for n in range(20)}
    for turn in range(12):
        others = {f"mcptools:b:other_{n}": f"Other {turn} {n}." for n in range(240)}
        fill(index, steady | others, model_id="m")
    fill(index, few, model_id="m")
    with index.reading() as reader:
        table = reader.vector_table("m").name
        size = "SELECT sum(length(vectors)) FROM " + f"{table}_vector_chunks00"
        assert reader.connection.execute(size).get <= 9 * 256 * 16
        assert reader.coverage("m").vectors == len(few)
    check_sound(path)


def lengths(index):
    """Return the length that is in use, and how many tools have a vector of each length."""
    with index.reading() as reader:
        now = reader.coverage("m").dimensions
        return now, {n: reader.coverage("m", dimensions=n).vectors for n in (2, 3, 4)}


def put(index, dimensions):
    texts = index.pending("m", limit=9)
    index.put_vectors("m", {text: [1.0] * dimensions for text in texts})


def test_one_wrong_answer_does_not_decide_a_models_dimensions(index, fill):
    fill(index, THREE)
    first, *_ = index.pending("m", limit=9)
    index.put_vectors("m", {first: [1.0, 1.0]})
    put(index, 4)
    assert index.count_pending("m") == 1, "the text of the wrong answer"
    put(index, 4)
    assert lengths(index) == (4, {2: 1, 3: 0, 4: 3})
    assert index.count_pending("m") == 0


def test_a_rebuild_after_a_change_of_dimensions_keeps_both_sets_of_vectors(index, fill):
    fill(index, THREE, model_id="m")
    for dimensions in (2, 3):
        index.use_model("m", dimensions=dimensions)
        index.rebuild(forget="m")
        index.put_vectors("m", {text: [1.0] * dimensions for text in index.pending("m", limit=1)})
        index.prune()
    assert index.count_pending("m") == 2
    assert lengths(index) == (3, {2: 1, 3: 1, 4: 3})


def test_the_length_used_last_counts_even_if_the_clock_was_set_back(index, fill):
    fill(index, THREE, model_id="m")
    with closing(apsw.Connection(str(index.path))) as connection:
        connection.execute("UPDATE models SET used_at = used_at + 1e6")
    index.use_model("m", dimensions=2)
    put(index, 2)
    assert lengths(index) == (2, {2: 3, 3: 0, 4: 3})


def test_vectors_of_another_length_replace_those_of_removed_tools(index, durable, fill):
    fill(index, THREE, model_id="m")
    with closing(apsw.Connection(str(durable))) as connection:
        connection.execute("DELETE FROM embeddings")
    put(index, 2)
    assert lengths(index) == (2, {2: 3, 3: 0, 4: 0})


def test_vectors_that_are_too_long_for_sqlite_vec_are_refused_with_the_limit(index, fill):
    fill(index, {"mcptools:mail:send": "Send."})
    (text_hash,) = index.pending("m", limit=1)
    index.put_vectors("m", {text_hash: [1.0] * 8_192})
    told = r"'m' gives vectors of 8,193 dimensions, but an index allows at most 8,192; choose fewer"
    for put in (index.put_vectors, index.query_vectors.put):
        with pytest.raises(VectorError, match=told):
            put("m", {text_hash: [1.0] * 8_193})
    with pytest.raises(VectorError, match=told):
        index.use_model("m", dimensions=8_193)
    with index.reading() as reader:
        assert reader.coverage("m").dimensions == 8_192


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory):
    with ToolIndex(tmp_path_factory.mktemp("vectors") / "search.db") as index:
        yield index


@given(
    vector=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=8
    )
)
def test_every_finite_vector_with_a_direction_is_kept_at_length_1(shared_index, vector):
    assume(any(vector))
    model_id = f"m{len(vector)}"
    shared_index.put_vectors(model_id, {"hash": vector})
    with shared_index.reading() as reader:
        ((blob,),) = reader.connection.execute(
            "SELECT vector FROM embeddings WHERE model_id = ?", (model_id,)
        )
    kept = struct.unpack(f"<{len(vector)}f", blob)
    assert math.hypot(*kept) == pytest.approx(1.0, abs=1e-5)
    cosine = sum(a * b for a, b in zip(kept, vector, strict=True)) / math.hypot(*vector)
    assert cosine == pytest.approx(1.0, abs=1e-5)


def test_coverage_is_correct_after_every_change(index, fill):
    for count in range(1, 25):
        tools = {f"mcptools:a:t{n}": f"Tool {n}." for n in range(count)}
        fill(index, tools, model_id="m" if count % 2 else None)
        with index.reading() as reader:
            coverage = reader.coverage("m")
        assert (coverage.tools, coverage.vectors) == (count, count if count % 2 else count - 1)
