"""What is stored about files: passed to a scan and its sync, and checked in between."""

from dataclasses import replace

import pytest
from toolindex import StoredFiles
from toolindex._rows import stamp_columns
from toolscan import ScanReport, scan


def test_a_stamp_that_cannot_be_kept_exactly_is_not_kept():
    """On a file system with 128-bit inodes, the file is read at each start."""
    entry = ("a/b/c.py", "a:b:c", "f", *stamp_columns((1, 1, 1, 2**64)))
    files = StoredFiles([entry], generation=1, within=frozenset("a"))
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


def test_stored_files_of_other_paths_or_another_reader_are_not_used(index, tree, contents):
    settle(index, tree)
    part = index.stored(reader_version="1", within=["mcptools/none"])
    other = index.stored(reader_version="2")
    (tree / "mcptools" / "mail" / "send.py").unlink()
    for stored in (part, other):
        report = index.sync(scan(tree), reader_version="1", stored=stored)
        assert list(contents(index)) == ["mcptools:mail:read"]
        assert report.unchanged == 1
