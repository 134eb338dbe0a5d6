"""Snapshots, for where nothing is announced: every difference is a change."""

import os
import time

import pytest
from toolwatch._snapshot import compare, take_snapshot


def differences(root, change):
    before = take_snapshot(str(root))
    change()
    return compare(before, take_snapshot(str(root))).paths


def test_an_untouched_root_has_no_differences(root):
    (root / "tool.py").write_text("x")
    assert differences(root, lambda: None) == set()


def test_what_is_added_removed_and_edited_differs(root):
    (root / "edited.py").write_text("x")
    (root / "removed.py").write_text("x")

    def change():
        (root / "edited.py").write_text("longer")
        (root / "removed.py").unlink()
        (root / "folder").mkdir()
        (root / "folder" / "added.py").write_text("x")

    expected = {"edited.py", "removed.py", "folder", "folder/added.py"}
    assert differences(root, change) == expected


def test_an_edit_that_keeps_size_and_time_differs_by_the_time_of_its_status(root):
    file = root / "tool.py"
    file.write_text("one")
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)

    def change():
        old = file.stat().st_ctime_ns
        while file.stat().st_ctime_ns == old:
            file.write_text("two")
            os.utime(file, ns=times)

    assert differences(root, change) == {"tool.py"}


def test_a_file_that_becomes_a_folder_differs(root):
    (root / "thing").write_text("x")

    def change():
        (root / "thing").unlink()
        (root / "thing").mkdir()

    assert differences(root, change) == {"thing"}


def test_noise_is_not_in_a_snapshot(root):
    for name in (".git", "__pycache__"):
        (root / name).mkdir()
        (root / name / "inside.py").write_text("x")
    (root / "tool.py.tmp").write_text("x")
    assert take_snapshot(str(root)).entries == {}


def test_a_root_that_is_a_file_or_absent_is_refused(root, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        take_snapshot(str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError):
        take_snapshot(str(tmp_path / "absent"))


def test_a_file_whose_time_has_no_fractions_is_looked_at_once_more_when_it_has_aged(root):
    """A second edit within the same second would not show otherwise."""
    file = root / "tool.py"
    file.write_text("x")
    second = int(time.time()) - 1
    os.utime(file, (second, second))
    before, deadline = take_snapshot(str(root)), time.monotonic() + 30
    while not (changes := compare(before, take_snapshot(str(root)))).paths:
        assert time.monotonic() < deadline
    assert changes.paths == {"tool.py"}
