"""Reading the index: entries by id, coverage, the generation."""

from contextlib import closing

import apsw
import pytest
from toolindex import ToolFilter, ToolIndex
from toolindex._rows import name_key
from toolscan import ScanReport

TWO = {"mcptools:mail:send": "Send a message.", "gentools:pdf:merge": "Merge files."}


def test_any_number_of_ids_can_be_requested(index, fill):
    fill(index, TWO)
    ids = [f"mcptools:none:{number}" for number in range(100_000)]
    with index.reading() as reader:
        assert set(reader.entries([*ids, *TWO])) == set(TWO)


def test_counting_by_category_reads_no_row_of_the_tools(index):
    with index.reading() as reader:
        plans = []
        reader.connection.exec_trace = lambda _, sql, values: plans.append((sql, values)) or True
        reader.categories(ToolFilter(exclude=["*:pdf:*"], categories=["mail"]))
        reader.connection.exec_trace = None
        ((sql, values),) = plans
        plan = [row[3] for row in reader.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    assert plan[0] == "SCAN entries USING COVERING INDEX entries_by_group"


def test_the_names_given_to_rankers_are_those_in_the_database(index):
    with index.reading() as reader:
        columns = reader.connection.execute(
            f"SELECT name FROM pragma_table_info('{reader.FTS_TABLE}')"
        )
        assert tuple(name for (name,) in columns) == reader.FTS_COLUMNS
        assert list(reader.connection.execute(f"SELECT id FROM {reader.CONTENT_TABLE}")) == []


def test_words_of_identifiers_parameters_and_tags_are_searched(index, make_record, matches):
    record = make_record("mcptools:s3_storage:putObject2", tags=("cloud-storage",))
    index.sync(ScanReport(records=(record,)), reader_version="1")
    for query in (
        "name_words: put",
        "name_words: putobject2",
        "category_words: storage",
        "category_words: s3",
        "parameter_words: title",
        'parameter_words: "what it is about"',
        "tag_words: cloud",
    ):
        assert matches(index, query) == {"mcptools:s3_storage:putObject2"}, query


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("createPullRequest", "createpullrequest"),
        ("create_pull-request", "createpullrequest"),
        ("  Create pull request! ", "createpullrequest"),
        ("HTTPServer2", "httpserver2"),
        ("ﬁle_Ⅷ", "fileviii"),
        ("Größe", "größe"),
        ("送信する", "送信する"),
        ("_?!", ""),
    ],
)
def test_a_name_key_consists_of_lower_case_letters_and_digits(typed, key):
    assert name_key(typed) == key


def test_the_time_of_the_last_change_is_returned(index, fill, monkeypatch):
    with index.reading() as reader:
        assert reader.changed_at() is None
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.25)
    fill(index, TWO)
    with index.reading() as reader:
        assert reader.changed_at() == 1_700_000_000.25
    monkeypatch.setattr("time.time", lambda: 1_700_000_099.5)
    fill(index, TWO)
    with index.reading() as reader:
        assert reader.changed_at() == 1_700_000_000.25
    fill(index, {})
    with index.reading() as reader:
        assert reader.changed_at() == 1_700_000_099.5


def test_an_index_of_an_earlier_version_has_the_time_of_its_newest_tool(path, fill, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.25)
    with ToolIndex(path) as index:
        fill(index, TWO)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'changed_at'")
    with ToolIndex(path) as index, index.reading() as reader:
        assert reader.changed_at() == 1_700_000_000.25


def test_the_tree_of_an_index_is_returned(index, tmp_path):
    assert index.bound_to()[0] == ""
    index.bind(str(tmp_path))
    assert index.bound_to() == (str(tmp_path), True)
