"""Filters work inside the search, so a search for five among many gives five."""

import struct

from toolindex import FTS_TABLE, VEC_TABLE, ToolFilter

MANY = {f"mcptools:mail:tool_{n}": "Send mail." for n in range(995)} | {
    f"gentools:mail:tool_{n}": "Send mail, among many other things that it also does."
    for n in range(5)
}


def test_a_filter_on_nothing_lets_all_pass():
    assert ToolFilter().rowids() is None


def test_five_of_a_thousand_are_found_by_a_search_for_five(index, fill, embed):
    fill(index, MANY, model_id="m")
    sql, parameters = ToolFilter(source="gentools").rowids()
    vector = struct.pack("<4f", *embed("anything", "m"))
    with index.reading() as reader:
        by_words = reader.connection.execute(
            f"SELECT rowid FROM {FTS_TABLE} WHERE {FTS_TABLE} MATCH 'mail' AND rowid IN ({sql}) "
            f"ORDER BY bm25({FTS_TABLE}) LIMIT 5",
            parameters,
        ).fetchall()
        by_meaning = reader.connection.execute(
            f"SELECT rowid FROM {VEC_TABLE} WHERE embedding MATCH ? AND k = 5 AND rowid IN ({sql})",
            (vector, *parameters),
        ).fetchall()
        allowed = reader.connection.execute(
            "SELECT rowid FROM entries WHERE source = 'gentools'"
        ).fetchall()
    assert sorted(by_words) == sorted(by_meaning) == sorted(allowed)
    assert len(allowed) == 5


def test_a_source_that_does_not_exist_lets_nothing_pass(index, fill):
    fill(index, MANY)
    sql, parameters = ToolFilter(source="' OR 1 = 1 --").rowids()
    with index.reading() as reader:
        assert reader.connection.execute(sql, parameters).fetchall() == []
