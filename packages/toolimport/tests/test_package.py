"""Updating a server's folder file by file, without touching other files."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from toolimport import _package
from toolimport._package import (
    Manifest,
    clear_leftovers,
    write_package,
)

MANIFEST = Manifest(server="shop", source="/servers.json", state="1")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "mcptools" / "shop"


@pytest.fixture
def write(folder):
    folder.parent.mkdir()

    def write_files(files, **options):
        return write_package(folder, {"__init__.py": "i"} | files, MANIFEST, **options)

    return write_files


def contents(folder):
    return {it.name: it.read_text() for it in folder.glob("*.py")}


def test_only_changed_files_are_written(write, folder):
    write({"a.py": "1", "b.py": "1", "c.py": "1"})
    # On many file systems, the times of two writes within a few milliseconds are equal.
    for file in folder.glob("*.py"):
        os.utime(file, (1, 1))
    written = write({"a.py": "1", "b.py": "2", "d.py": "1"})
    assert (written.added, written.changed, written.removed) == (("d.py",), ("b.py",), ("c.py",))
    assert contents(folder) == {"__init__.py": "i", "a.py": "1", "b.py": "2", "d.py": "1"}
    untouched = {it.name for it in folder.glob("*.py") if it.stat().st_mtime == 1}
    assert untouched == {"__init__.py", "a.py"}


def test_simultaneous_imports_write_one_after_the_other(write, folder):
    versions = [{f"{name}.py": str(number) for name in "abc"} for number in range(8)]
    start = threading.Barrier(len(versions))

    def write_version(files):
        start.wait(60)
        return write_package(folder, {"__init__.py": "i"} | files, MANIFEST)

    with ThreadPoolExecutor(len(versions)) as threads:
        written = list(threads.map(write_version, versions))
    assert [it.kept for it in written] == [()] * len(versions)
    assert contents(folder) in [{"__init__.py": "i"} | files for files in versions]
    assert Manifest.read(folder).is_whole(folder)


@pytest.mark.parametrize("moves", range(5))
def test_after_a_kill_at_any_moment_the_next_run_completes_the_work(
    write, folder, monkeypatch, moves
):
    write({"a.py": "1", "b.py": "1", "c.py": "1"})
    done, real = 0, _package.Path.replace

    def dying(self, target):
        nonlocal done
        if done == moves:
            raise KeyboardInterrupt
        done += 1
        real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(_package.Path, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            write({"a.py": "2", "b.py": "2", "d.py": "2"})
    assert set(contents(folder).values()) <= {"i", "1", "2"}
    written = write({"a.py": "2", "b.py": "2", "d.py": "2"})
    assert written.kept == ()
    assert contents(folder) == {"__init__.py": "i"} | dict.fromkeys(("a.py", "b.py", "d.py"), "2")
    assert Manifest.read(folder).is_whole(folder)


def test_a_manifest_cannot_name_files_outside_its_folder(write, folder, tmp_path):
    write({"a.py": "1"})
    outside = tmp_path / "outside.py"
    outside.write_text("1")
    manifest = json.loads((folder / "_manifest.json").read_text())
    manifest["files"]["../../outside.py"] = manifest["files"]["a.py"]
    (folder / "_manifest.json").write_text(json.dumps(manifest))
    write({})
    assert outside.exists()


def test_nothing_is_written_through_a_link(write, folder, tmp_path):
    write({"a.py": "1"})
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "_manifest.json.new").symlink_to(precious)
    (folder.parent / "_importing.lock").unlink()
    (folder.parent / "_importing.lock").symlink_to(precious)
    with suppress(OSError):
        write({"a.py": "2"})
    assert precious.read_text() == "mine"
    (folder.parent / "_importing.lock").unlink()
    write({"a.py": "2"})
    assert precious.read_text() == "mine"
    assert contents(folder) == {"__init__.py": "i", "a.py": "2"}


@pytest.mark.parametrize("text", ["", "[]", '{"server": 1}', '{"server": "a", "files": 3}', "\0"])
def test_a_damaged_manifest_counts_as_missing(folder, text):
    folder.mkdir(parents=True)
    (folder / "_manifest.json").write_text(text)
    assert Manifest.read(folder) is None


def test_leftovers_of_a_killed_run_are_deleted_once_they_are_old(tmp_path):
    new, old = tmp_path / "_importing-new", tmp_path / "_importing-old"
    for it in (new, old):
        (it / "shop").mkdir(parents=True)
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    clear_leftovers(tmp_path)
    assert [it.name for it in tmp_path.iterdir()] == ["_importing-new"]
