"""Vectors over time: counted, kept while they are needed, and stored compactly."""

SOME = {f"mcptools:a:t{n:04}": f"Tool {n}." for n in range(12 * 256)}


def chunks(index):
    with index.reading() as reader:
        table = reader.vector_table("m")
        return reader.connection.execute(f"SELECT count(*) FROM {table.name}_chunks").get


def test_scattered_vectors_are_stored_together_again(index, path, fill, check_sound):
    """Every search reads all chunks, even those with only one vector left."""
    fill(index, SOME, model_id="m")
    full = chunks(index)
    with index.reading() as reader:
        rows = reader.connection.execute("SELECT id FROM entries ORDER BY rowid").fetchall()
    few = {id_: SOME[id_] for (id_,) in rows[::256]}
    fill(index, few)
    few.popitem()
    fill(index, few)
    assert chunks(index) == 1 < full
    with index.reading() as reader:
        assert reader.coverage("m").vectors == len(few)
    check_sound(path)


def test_pending_texts_are_counted_without_refused_ones(index, fill, monkeypatch):
    # A refusal does not count for long.
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.0)
    fill(index, {"mcptools:a:one": "One.", "mcptools:a:two": "Two."})
    (first, second) = index.pending("m", limit=2)
    assert index.count_pending("m") == 2
    index.refuse("m", {second: "too odd"})
    assert index.count_pending("m") == 1
    index.put_vectors("m", {first: [1.0, 0.0]})
    assert index.count_pending("m") == 0
    assert index.count_pending("other") == 2


def test_pruning_keeps_vectors_that_tools_need_and_some_others(index, fill):
    fill(index, {"mcptools:a:one": "One.", "mcptools:a:two": "Two."}, model_id="m")
    fill(index, {"mcptools:a:one": "One."})
    assert index.prune() == 0
    fill(index, {"mcptools:a:one": "One.", "mcptools:a:two": "Two."})
    assert index.count_pending("m") == 0


def test_coverage_is_correct_after_every_change(index, fill):
    for count in range(1, 25):
        tools = {f"mcptools:a:t{n}": f"Tool {n}." for n in range(count)}
        fill(index, tools, model_id="m" if count % 2 else None)
        with index.reading() as reader:
            coverage = reader.coverage("m")
        assert (coverage.tools, coverage.vectors) == (count, count if count % 2 else count - 1)
