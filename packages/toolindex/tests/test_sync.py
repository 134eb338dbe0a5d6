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


def test_edits_additions_and_deletions_reach_the_index(index, tmp_path, write_tool, matches):
    write_tool(tmp_path, "mail", "send", "Send a message.")
    gone = write_tool(tmp_path, "mail", "read", "Read a message.")
    sync(index, tmp_path)
    write_tool(tmp_path, "mail", "send", "Dispatch a letter.")
    write_tool(tmp_path, "mail", "archive", "Archive a letter.")
    gone.unlink()
    assert counts(sync(index, tmp_path)) == (1, 1, 1, 0)
    assert matches(index, "letter") == {"mcptools:mail:send", "mcptools:mail:archive"}
    assert matches(index, "message") == set()


def test_a_file_that_is_no_longer_a_tool_is_removed(index, tmp_path, write_tool, contents):
    file = write_tool(tmp_path, "mail", "send", "Send a message.")
    sync(index, tmp_path)
    file.write_text("x = 1")
    report = sync(index, tmp_path)
    assert counts(report) == (0, 0, 1, 0)
    assert [issue.path for issue in report.issues] == ["mcptools/mail/send.py"]
    assert contents(index) == {}


def test_a_sync_within_a_folder_does_not_change_the_rest(index, tmp_path, write_tool, contents):
    write_tool(tmp_path, "mail", "send", "Send.")
    write_tool(tmp_path, "pdf", "merge", "Merge.")
    sync(index, tmp_path)
    write_tool(tmp_path, "mail", "read", "Read.")
    (tmp_path / "mcptools" / "pdf" / "merge.py").unlink()
    within = ["mcptools/mail"]
    index.sync(scan(tmp_path, within=within), reader_version=READER, within=within)
    assert set(contents(index)) == {
        "mcptools:mail:send",
        "mcptools:mail:read",
        "mcptools:pdf:merge",
    }
    index.sync(ScanReport(), reader_version=READER, within=["mcptools/pdf"])
    assert set(contents(index)) == {"mcptools:mail:send", "mcptools:mail:read"}


def test_known_files_are_those_with_a_trusted_stamp(index, make_record):
    # Inode numbers of some file systems use all 64 bits.
    stamp = (1, 2, 3, 2**64 - 1)
    records = (make_record("mcptools:a:a", stamp=stamp), make_record("mcptools:a:b", stamp=None))
    index.sync(ScanReport(records=records), reader_version=READER)
    assert index.stored(reader_version=READER).stamps == {"mcptools/a/a.py": stamp}


def test_a_touched_file_gets_its_new_stamp(index, make_record):
    before, after = ((1, time, time, 5) for time in (1, 2))
    index.sync(
        ScanReport(records=(make_record("mcptools:a:a", stamp=before),)), reader_version=READER
    )
    report = index.sync(
        ScanReport(records=(make_record("mcptools:a:a", stamp=after),)), reader_version=READER
    )
    assert counts(report) == (0, 0, 0, 1)
    assert index.stored(reader_version=READER).stamps == {"mcptools/a/a.py": after}


def test_a_reader_of_another_version_uses_no_stamps_and_updates_everything(index, make_record):
    stamp = (1, 2, 3, 4)
    scanned = ScanReport(records=(make_record("mcptools:a:a", stamp=stamp),))
    index.sync(scanned, reader_version="1")
    assert index.stored(reader_version="2").stamps == {}
    assert counts(index.sync(scanned, reader_version="2")) == (0, 1, 0, 0)
    assert list(index.stored(reader_version="2").stamps) == ["mcptools/a/a.py"]
    assert index.stored(reader_version="1").stamps == {}


def test_another_reader_that_synced_a_part_still_updates_everything_later(index, make_record):
    records = (make_record("mcptools:a:a"), make_record("mcptools:b:b"))
    index.sync(ScanReport(records=records), reader_version="1")
    part = ScanReport(records=records[:1])
    assert counts(index.sync(part, reader_version="2", within=["mcptools/a"])) == (0, 1, 0, 0)
    assert counts(index.sync(ScanReport(records=records), reader_version="2")) == (0, 2, 0, 0)


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


def test_entries_that_another_process_removed_during_a_scan_are_scanned_again(index, make_record):
    record = make_record("mcptools:a:a")
    index.sync(ScanReport(records=(record,)), reader_version=READER)
    index.sync(ScanReport(), reader_version=READER)
    report = index.sync(ScanReport(unchanged=(record.path,)), reader_version=READER)
    assert report.rescan == (record.path,)


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
