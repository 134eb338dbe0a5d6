"""Sync: the index equals the files afterwards, and a report counts the changes."""

import pytest
from toolindex import ToolIndex
from toolscan import ScanReport, scan

READER = "1"


def sync(index, root, **options):
    stored = index.stored(reader_version=READER)
    scanned = scan(root, known=stored.stamps, **options)
    return index.sync(scanned, reader_version=READER, stored=stored)


def counts(report):
    return (report.added, report.updated, report.removed, report.unchanged)


def test_a_tree_of_files_is_found_by_its_words(index, tmp_path, write_tool, matches):
    write_tool(tmp_path, "github", "createPullRequest", "Open a pull request.")
    write_tool(tmp_path, "mail", "send_mail", "Send a message.")
    assert counts(sync(index, tmp_path)) == (2, 0, 0, 0)
    assert matches(index, "creating pulls") == {"mcptools:github:createPullRequest"}
    assert matches(index, "mails") == {"mcptools:mail:send_mail"}
    assert matches(index, "category_words: github") == {"mcptools:github:createPullRequest"}


def test_entries_that_another_reader_wrote_during_a_scan_are_scanned_again(
    path, make_record, contents
):
    """Two versions of a program share an index: neither uses the other's entries."""
    stamp = (1, 2, 3, 4)
    file = "mcptools/a/a.py"
    with ToolIndex(path) as index:
        old = make_record("mcptools:a:a", "As read by 1.", stamp=stamp, file_hash="same")
        new = make_record("mcptools:a:a", "As read by 2.", stamp=stamp, file_hash="same")
        index.sync(ScanReport(records=(old,)), reader_version="1")
        assert list(index.stored(reader_version="1").stamps) == [file]
        index.sync(ScanReport(records=(new,)), reader_version="2")
        report = index.sync(ScanReport(unchanged=(file,)), reader_version="1")
        assert report.rescan == (file,)
        again = ScanReport(records=(old,))
        report = index.sync(again, reader_version="1", within=report.rescan)
        assert (report.rescan, contents(index)) == ((), {"mcptools:a:a": "As read by 1."})


@pytest.mark.parametrize(
    "description",
    [
        "",
        "null \0 byte",
        "名前を変える 🛠",
        "e\u0301",
        "'; DROP TABLE entries; --",
        "word " * 50_000,
    ],
    ids=["empty", "nul", "cjk", "combining", "sql", "long"],
)
def test_any_description_is_stored_and_returned(
    index, path, make_record, contents, check_sound, description
):
    for text in (description, "something else", description):
        record = make_record("mcptools:a:a", text)
        index.sync(ScanReport(records=(record,)), reader_version=READER)
        assert contents(index) == {"mcptools:a:a": text}
    check_sound(path)
