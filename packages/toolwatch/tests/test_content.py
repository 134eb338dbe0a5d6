"""The known content of a root, compared with the disk: every difference is a change."""

import os
from types import SimpleNamespace

import pytest
from toolwatch import _content
from toolwatch._content import Content


def differences(root, change):
    content = Content(str(root))
    change()
    return content.look_through()


def test_an_untouched_root_has_no_differences(root):
    (root / "tool.py").write_text("x")
    assert differences(root, lambda: None) == set()


def test_added_removed_and_edited_files_differ(root):
    (root / "edited.py").write_text("x")
    (root / "removed.py").write_text("x")

    def change():
        (root / "edited.py").write_text("longer")
        (root / "removed.py").unlink()
        (root / "folder").mkdir()
        (root / "folder" / "added.py").write_text("x")

    expected = {"edited.py", "removed.py", "folder", "folder/added.py"}
    assert differences(root, change) == expected


def test_an_edit_that_keeps_size_and_mtime_differs_by_its_ctime(root):
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


def test_noise_does_not_count_as_a_difference(root):
    for name in (".git", "__pycache__"):
        (root / name).mkdir()
        (root / name / "inside.py").write_text("x")
    (root / "tool.py.tmp").write_text("x")
    before = Content(str(root))
    (root / ".git" / "inside.py").write_text("longer")
    (root / "other.pyc").write_text("x")
    assert before.look_through() == set()


def test_a_root_that_is_a_file_or_absent_is_refused(root, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        Content(str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError):
        Content(str(tmp_path / "absent"))


def test_a_file_with_a_coarse_mtime_is_checked_again_once_it_is_older(root, monkeypatch):
    """Otherwise, a second edit within the same second would be missed."""
    file, second = root / "tool.py", 1_000_000_000
    file.write_text("x")
    os.utime(file, (second, second))
    age = 1
    clock = SimpleNamespace(time_ns=lambda: (second + age) * 1_000_000_000)
    monkeypatch.setattr(_content, "time", clock)
    content = Content(str(root))
    assert content.young == {""}
    assert content.look_through() == set()
    age = 3
    assert content.look_through() == {"tool.py"}
    assert not content.young


def test_only_the_named_folders_are_listed_and_new_ones_completely(root):
    for name in ("named", "other"):
        (root / name / "inner").mkdir(parents=True)
    content = Content(str(root))
    for name in ("named", "other", "named/inner", "named/new"):
        (root / name).mkdir(exist_ok=True)
        (root / name / "tool.py").write_text("x")
    assert content.look(["named"]) == {"named/tool.py", "named/new", "named/new/tool.py"}
    assert content.look(["named"], deep=True) == {"named/inner/tool.py"}
    assert content.look(["unknown"]) == set()
    assert content.look_through() == {"other/tool.py"}


def test_a_folder_that_is_replaced_by_another_is_scanned(root, tmp_path):
    """The other folder has the same mode, and files with the same names."""
    for folder in (root / "folder", tmp_path / "other"):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "tool.py").write_text("x")
    content = Content(str(root))
    (root / "folder").rename(tmp_path / "parked")
    (tmp_path / "other").rename(root / "folder")
    assert content.look([""]) == {"folder/inner/tool.py"}
