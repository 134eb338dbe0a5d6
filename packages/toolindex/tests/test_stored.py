"""What is stored about files: passed to a scan and its sync, and checked in between."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex import StoredEntry, StoredFiles, ToolIndex
from toolscan import ScanReport, scan

NUMBERS = st.integers(0, 2**62)
STAMPS = st.none() | st.tuples(NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2**64 - 1))


@given(st.dictionaries(st.text(), st.tuples(st.text(), STAMPS)))
def test_stored_files_return_the_entries_they_were_made_from(entries):
    made = [
        StoredEntry(id=id_, path=path, file_hash="f", stamp=stamp)
        for id_, (path, stamp) in entries.items()
    ]
    files = StoredFiles.of(made, generation=1)
    assert list(files.entries.values()) == made
    assert files.is_exactly([entry.path for entry in made]) or len(made) > len(
        {entry.path for entry in made}
    )


def test_a_stamp_that_cannot_be_kept_exactly_is_not_kept():
    """On a file system with 128-bit inodes, the file is read at each start."""
    stamp = (1, 1, 1, 2**64)
    entry = StoredEntry(id="a:b:c", path="a/b/c.py", file_hash="f", stamp=stamp)
    files = StoredFiles.of([entry], generation=1, within=["a"])
    assert files.within == {"a"}
    assert files.stamps == {}
    assert files.entries["a:b:c"].stamp is None


@pytest.fixture
def tree(tmp_path, write_tool):
    root = tmp_path / "tree"
    write_tool(root, "mail", "send", "Send a message.")
    write_tool(root, "mail", "read", "Read a message.")
    return root


def known_sync(index, root, **options):
    """Scan and sync like a server: the stored data is read once, and unchanged files are not."""
    stored = index.stored(reader_version="1", **options)
    return index.sync(
        scan(root, known=stored.stamps, **options), reader_version="1", stored=stored, **options
    )


def settle(index, root):
    """Index a tree as if its files were old enough for their stamps to be trusted."""
    records = []
    for record in scan(root).records:
        found = (root / record.path).stat()
        stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        records.append(replace(record, stamp=stamp))
    index.sync(ScanReport(records=tuple(records)), reader_version="1")


def test_syncing_an_unchanged_tree_writes_nothing(index, tree, path):
    index.bind(str(tree))
    settle(index, tree)
    with index.reading() as reader:
        generation = reader.generation()
    log = path.with_name("search.db-wal").read_bytes()
    assert known_sync(index, tree).unchanged == 2
    assert known_sync(index, tree, within=["mcptools/mail/send.py"]).unchanged == 1
    assert path.with_name("search.db-wal").read_bytes() == log
    with index.reading() as reader:
        assert reader.generation() == generation


def test_only_changed_files_are_read_again(index, tree, contents, write_tool):
    settle(index, tree)
    write_tool(tree, "mail", "send", "Post a letter.")
    report = known_sync(index, tree)
    assert (report.updated, report.unchanged) == (1, 1)
    assert contents(index)["mcptools:mail:send"] == "Post a letter."


def test_a_tool_whose_file_is_gone_is_removed(index, tree, contents):
    settle(index, tree)
    (tree / "mcptools/mail/send.py").unlink()
    assert known_sync(index, tree).removed == 1
    assert list(contents(index)) == ["mcptools:mail:read"]


def test_changes_by_another_process_between_scan_and_sync_are_corrected(
    index, tree, path, contents, fill
):
    settle(index, tree)
    stored = index.stored(reader_version="1")
    scanned = scan(tree, known=stored.stamps)
    with ToolIndex(path) as other:
        fill(other, {"mcptools:mail:gone": "Not on the disk."})
    report = index.sync(scanned, reader_version="1", stored=stored)
    assert report.removed == 1
    assert report.rescan == ("mcptools/mail/read.py", "mcptools/mail/send.py")
    index.sync(scan(tree, within=report.rescan), reader_version="1", within=report.rescan)
    assert set(contents(index)) == {"mcptools:mail:read", "mcptools:mail:send"}


def test_stored_files_of_other_paths_or_another_reader_are_not_used(index, tree, contents):
    settle(index, tree)
    part = index.stored(reader_version="1", within=["mcptools/none"])
    other = index.stored(reader_version="2")
    (tree / "mcptools" / "mail" / "send.py").unlink()
    for stored in (part, other):
        report = index.sync(scan(tree), reader_version="1", stored=stored)
        assert list(contents(index)) == ["mcptools:mail:read"]
        assert report.unchanged == 1
