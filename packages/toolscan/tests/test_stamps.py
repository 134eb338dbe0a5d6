"""Recognizing unchanged files, by stamp or by the hash of their bytes."""

import os
import time
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolscan import scan

SECOND = 1_000_000_000
PATHS = ("mcptools/c/a.py", "mcptools/c/b.py")


def module(word):
    return f"def run():\n    '''Does {word}.'''\n"


class CoarseTree:
    """A tree on a simulated file system with a slow clock, which the test sets.

    Only the times and the stamps of files are simulated; the files are real.
    """

    def __init__(self, root, tick):
        self.root, self.tick = root, tick
        self.now = 1_000 * SECOND
        self.written = {}
        self.known, self.hashes = {}, {}

    def write(self, path, word):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(module(word), encoding="utf-8")
        self.written[file.stat().st_ino] = self.now - self.now % self.tick

    def status(self, found):
        at = self.written.get(found.st_ino, 0)
        return os.stat_result(
            tuple(found), {"st_mtime_ns": at, "st_ctime_ns": at, "st_atime_ns": at}
        )

    def scan(self):
        """Scan the files as an index does, which stores the results."""
        stat, fstat = os.stat, os.fstat
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "stat", lambda *args, **kw: self.status(stat(*args, **kw)))
            patch.setattr(os, "fstat", lambda fd: self.status(fstat(fd)))
            patch.setattr(time, "time_ns", lambda: self.now)
            report = scan(self.root, known=self.known, hashes=self.hashes)
        for record in report.records:
            self.hashes[record.path] = record.file_hash
            self.known[record.path] = record.stamp
        assert set(report.touched) <= set(report.unchanged)
        self.known.update(report.touched)
        return report

    def is_true(self):
        return self.hashes == {
            path: sha256((self.root / path).read_bytes()).hexdigest()
            for path in PATHS
            if (self.root / path).exists()
        }


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(PATHS), st.sampled_from(["this", "that"])),
        # In ticks: parts of one, and as many as files need to settle.
        st.sampled_from([0.0, 0.001, 0.4, 0.6, 1.0, 1.7, 300.0]),
        st.none(),
    ),
    max_size=12,
)


@given(tick=st.sampled_from([SECOND // 100, SECOND, 2 * SECOND]), steps=STEPS)
def test_an_edit_is_never_missed_even_if_file_times_are_coarse(tmp_path_factory, tick, steps):
    tree = CoarseTree(tmp_path_factory.mktemp("coarse"), tick)
    for path in PATHS:
        tree.write(path, "this")
    for step in steps:
        match step:
            case None:
                tree.scan()
                assert tree.is_true()
            case (path, word):
                tree.write(path, word)
            case ticks:
                tree.now += int(ticks * tick)
    tree.scan()
    assert tree.is_true()
    # Once nothing has been written for a while, a scan gives every file a stamp, and the next scan
    # reads nothing.
    tree.now += 5 * SECOND
    tree.scan()
    assert None not in tree.known.values()
    tree.hashes = {}
    report = tree.scan()
    assert (report.unchanged, report.touched, report.records) == (PATHS, {}, ())


def test_an_edit_of_the_same_size_within_one_clock_tick_is_noticed(tmp_path):
    tree = CoarseTree(tmp_path, 2 * SECOND)
    tree.write(PATHS[0], "this")
    tree.scan()
    tree.write(PATHS[0], "that")
    (record,) = tree.scan().records
    assert record.description == "Does that."


def test_a_file_with_a_known_hash_is_not_parsed_again(tmp_path):
    """Change every file's time or inode, as a checkout or the start of a container does."""
    tree = CoarseTree(tmp_path, SECOND)
    tree.write(PATHS[0], "this")
    tree.now += 5 * SECOND
    tree.scan()
    tree.write(PATHS[0], "this")
    tree.now += 5 * SECOND
    report = tree.scan()
    assert (report.records, report.unchanged) == ((), PATHS[:1])
    assert list(report.touched) == [PATHS[0]]
    assert report.touched[PATHS[0]] is not None
    assert tree.scan().touched == {}


def test_a_file_that_was_just_rewritten_loses_its_stamp(tmp_path):
    tree = CoarseTree(tmp_path, SECOND)
    tree.write(PATHS[0], "this")
    tree.now += 5 * SECOND
    tree.scan()
    tree.write(PATHS[0], "this")
    assert tree.scan().touched == {PATHS[0]: None}


def test_hashes_are_enough_to_skip_parsing(tmp_path):
    tree = CoarseTree(tmp_path, SECOND)
    for path in PATHS:
        tree.write(path, "this")
    hashes = {record.path: record.file_hash for record in scan(tmp_path).records}
    tree.write(PATHS[1], "that")
    report = scan(tmp_path, hashes=hashes)
    assert report.unchanged == PATHS[:1]
    assert [record.path for record in report.records] == [PATHS[1]]


def test_each_record_is_passed_on_as_soon_as_it_is_read(tmp_path):
    tree = CoarseTree(tmp_path, SECOND)
    for path in PATHS:
        tree.write(path, "this")
    found, seen = [], []
    report = scan(tmp_path, found=found.append, progress=lambda _: seen.append(len(found)))
    assert seen == [0, 1]
    assert sorted(found, key=lambda record: record.id) == list(report.records)


def test_a_record_that_the_callback_takes_is_left_out_of_the_report(tmp_path):
    tree = CoarseTree(tmp_path, SECOND)
    for path in PATHS:
        tree.write(path, "this")
    report = scan(tmp_path, found=lambda record: record.path == PATHS[0])
    assert [record.path for record in report.records] == [PATHS[1]]
    assert report.unchanged == PATHS[:1]
