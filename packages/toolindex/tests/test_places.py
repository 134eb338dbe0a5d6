"""Places where an index cannot be: an immediate error says why, and what to do."""

import errno
import os
import socket
import stat
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from toolindex import DatabaseBusyError, DatabaseError, ToolIndex


@pytest.fixture
def refuses(tmp_path):
    """Check that opening a path raises a permanent error, and leaves no file."""

    def check(path, match):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(DatabaseError, match=match) as caught:
            ToolIndex(path)
        assert not isinstance(caught.value, DatabaseBusyError)
        assert str(path) in str(caught.value)
        assert sorted(tmp_path.rglob("*")) == before

    return check


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no such folder here")
def test_an_index_cannot_be_created_in_a_folder_like_proc(refuses):
    refuses("/proc/search.db", r"no file can be created in /proc .*; choose another path")


def test_an_index_cannot_be_a_folder_but_can_be_a_file_in_it(tmp_path, refuses):
    refuses(tmp_path, "this is a folder; give the path of a file in it")
    ToolIndex(tmp_path / "search.db").close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such files")
def test_an_index_cannot_be_a_pipe_a_socket_or_a_device(tmp_path, refuses, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    refuses(tmp_path / "pipe", "this is a named pipe; give the path of a file")
    with socket.socket(socket.AF_UNIX) as listening:
        # The path of a socket must be short.
        monkeypatch.chdir(tmp_path)
        listening.bind("socket")
        refuses(tmp_path / "socket", "this is a socket; give the path of a file")
    refuses("/dev/null", "this is a device; give the path of a file")


def test_an_index_cannot_be_below_a_file(tmp_path, refuses):
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    for below in ("search.db", "folder/search.db"):
        refuses(tmp_path / "notes" / below, "notes is a file, not a folder; choose another path")


def test_a_path_whose_name_is_too_long_is_an_error(tmp_path, refuses):
    refuses(tmp_path / f"{'x' * 400}.db", "name is too long for this system; choose a shorter one")
    refuses(tmp_path / ("y" * 400) / "search.db", "name is too long")


def test_a_loop_of_links_is_an_error(tmp_path, refuses):
    (tmp_path / "circle").symlink_to("circle")
    refuses(tmp_path / "circle", "symbolic links form a loop; choose another path")


def test_an_index_cannot_be_in_a_folder_without_write_permission(tmp_path, refuses, read_only_view):
    (tmp_path / "theirs").mkdir()
    with read_only_view(tmp_path / "theirs") as folder:
        match = r"(no permission to create files in|cannot be written \(read-only\))"
        with pytest.raises(DatabaseError, match=rf"{match}.*choose another path") as caught:
            ToolIndex(folder / "search.db")
    assert str(folder) in str(caught.value)


class _WithoutLocks(apsw.VFSFile):
    """A file like those on a network drive whose server has no locks."""

    def xLock(self, level):  # noqa: N802 - SQLite's name
        raise apsw.BusyError("no locks available")


class _NetworkDrive(apsw.VFS):
    def xOpen(self, name, flags):  # noqa: N802
        return _WithoutLocks("unix", name, flags)


@pytest.fixture
def without_locks(monkeypatch):
    """Make the system refuse all locks, as `mount -o nolock` does on an old network drive."""
    fcntl = pytest.importorskip("fcntl", reason="on Windows files can always be locked")

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    with ExitStack() as stack:
        drive = _NetworkDrive("network-drive", "unix", makedefault=True)
        stack.callback(drive.unregister)
        yield


def test_a_new_index_cannot_be_on_a_drive_without_locks(tmp_path, without_locks):
    with pytest.raises(DatabaseError, match=r"cannot be locked there, .*local disk") as caught:
        ToolIndex(tmp_path / "search.db")
    assert not isinstance(caught.value, DatabaseBusyError)
    assert list(tmp_path.iterdir()) == []


def test_an_index_that_was_copied_to_a_drive_without_locks_is_an_error(path, index, request):
    index.close()
    request.getfixturevalue("without_locks")
    with pytest.raises(DatabaseError, match=r"cannot be locked there, .*local disk") as caught:
        ToolIndex(path)
    assert not isinstance(caught.value, DatabaseBusyError)
    assert stat.S_ISREG(path.stat().st_mode)


@contextmanager
def another_user():
    """Become a user to whom permissions apply."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions do not apply on this system")
@pytest.mark.parametrize(("mode", "what"), [(0, "cannot be opened"), (0o444, "cannot be written")])
def test_an_error_names_the_file_beside_the_index_if_it_belongs_to_another_user(fill, mode, what):
    with TemporaryDirectory() as folder:
        path, durable = Path(folder, "search.db"), Path(folder, "search.db-kept")
        path.parent.chmod(0o777)
        with ToolIndex(path) as index:
            fill(index, {"mcptools:mail:send": "Send a message."}, model_id="m")
        path.chmod(0o666)
        durable.chmod(mode)
        with another_user():
            with pytest.raises(DatabaseError, match=what) as caught:
                ToolIndex(path)
            assert caught.value.where == durable
            with ToolIndex(path, read_only=True) as index, index.reading() as reader:
                assert reader.coverage("m").vectors == 1
                assert (durable.name in index.durable_problem) == (mode == 0)
        durable.chmod(0o600)
        with ToolIndex(path) as index:
            assert index.count_pending("m") == 0
