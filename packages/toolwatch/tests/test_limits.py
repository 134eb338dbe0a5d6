"""What the system does not announce is found, and that it is so is said."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import pytest
from toolwatch import WatchUnavailableError, watch_tools
from toolwatch._inotify import has_inotify
from toolwatch._mounts import silent_file_system

resource = pytest.importorskip("resource", reason="these are the limits of Linux")
pytestmark = pytest.mark.skipif(not has_inotify(), reason="these are the limits of Linux")

SECONDS = 60.0
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")

CHILD = """
import logging, sys
from pathlib import Path
import toolwatch._watch
from toolwatch import watch_tools

root = Path(sys.argv[1])
logging.basicConfig(stream=sys.stdout, format="log: %(message)s")

def until(batches, wanted):
    for batch in batches:
        if wanted(batch):
            return batch
"""


def run_limited(root, limit, code):
    """Run code in a user namespace of its own, where limits can be set for it alone."""
    name, number = limit
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    set_limit = f"echo {number} > /proc/sys/user/{name} || exit 77"
    ran = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "sh", "-c", f'{set_limit}; exec "$@"', "sh"),
            *(sys.executable, "-W", "error", "-c", CHILD + code, str(root)),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if ran.returncode == 77 or "unshare:" in ran.stderr:
        pytest.skip("user namespaces cannot be had here")
    assert ran.stderr == ""
    return ran.stdout


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        (("max_inotify_watches", 3), "raise fs.inotify.max_user_watches"),
        (("max_inotify_instances", 0), "raise fs.inotify.max_user_instances"),
    ],
)
def test_a_limit_that_is_reached_from_the_start_means_polling(root, limit, advice):
    for number in range(5):
        (root / f"folder_{number}").mkdir()
    said = run_limited(
        root,
        limit,
        """
batches = watch_tools(root)
print(next(batches).polling)
(root / "folder_4" / "tool.py").write_text("x")
print(*next(batches).paths)
""",
    )
    log, polling, path = said.splitlines()
    assert log.startswith(f"log: {root} is looked through at intervals: the system takes no more")
    assert advice in log
    assert (polling, path) == ("True", "folder_4/tool.py")


def test_a_limit_that_is_reached_later_means_polling_from_then_on(root):
    said = run_limited(
        root,
        ("max_inotify_watches", 4),
        """
batches = watch_tools(root)
print(next(batches).polling)
for number in range(8):
    (root / f"folder_{number}").mkdir()
batch = until(batches, lambda batch: batch.polling)
print(batch.rescan)
for number in range(8):
    (root / f"folder_{number}" / "tool.py").write_text("x")
    path = until(batches, lambda batch: not batch.rescan)
""",
    )
    first, log, rescan = said.splitlines()
    assert (first, rescan) == ("False", "True")
    assert "the system takes no more watches" in log


def test_a_limit_that_one_root_reaches_does_not_hold_up_another(root, tmp_path):
    (tmp_path / "small").mkdir()
    for number in range(8):
        (root / f"folder_{number}").mkdir()
    said = run_limited(
        root,
        ("max_inotify_watches", 4),
        """
small = root.with_name("small")
batches = watch_tools(small, root)
first = [next(batches), next(batches)]
print({batch.root.name: batch.polling for batch in first})
(small / "tool.py").write_text("x")
print(next(batches).root.name)
""",
    )
    assert said.splitlines()[1:] == ["{'small': False, 'generated': True}", "small"]


def test_where_other_systems_announce_nothing_they_are_polled(root):
    said = run_limited(
        root,
        ("max_inotify_instances", 0),
        """
toolwatch._watch.has_inotify = lambda: False
batches = watch_tools(root)
print(until(batches, lambda batch: batch.polling).rescan)
(root / "tool.py").write_text("x")
print(*next(batches).paths)
""",
    )
    log, rescan, path = said.splitlines()
    assert "listening failed" in log
    assert (rescan, path) == ("True", "tool.py")


def test_more_events_than_the_queue_holds_end_in_a_rescan(root):
    limit = int(QUEUE.read_text())
    if limit > 200_000:
        pytest.skip("the queue of this system is too long to be filled in a test")
    files = [root / "one.py", root / "two.py"]
    for file in files:
        file.write_text("x")
    with closing(watch_tools(root)) as batches:
        next(batches)
        for number in range(limit + 10):
            os.utime(files[number % 2])
        # Nobody hears of these any more.
        deep = root / "unheard" / "of"
        deep.mkdir(parents=True)
        assert next(batches).rescan
        (deep / "tool.py").write_text("x")
        assert next(batches).paths == {PurePosixPath("unheard/of/tool.py")}


def test_a_burst_of_ten_thousand_files_ends_in_a_rescan(root, way):
    with closing(watch_tools(root, polling=True if way == "polled" else None)) as batches:
        next(batches)
        for number in range(10_000):
            (root / f"tool_{number}.py").write_text("x")
        assert next(batches).rescan


def test_no_descriptors_left_means_polling_until_the_folder_can_be_read(root, caplog):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(watch_tools(root)) as batches:
        next(batches)
        (root / "new").mkdir()
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            batch = next(batches)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (batch.rescan, batch.polling) == (True, True)
        (root / "new" / "tool.py").write_text("x")
        seen = next(batches)
        assert seen.rescan or PurePosixPath("new") in seen.paths
    assert "cannot be watched" in caplog.text


def mounted(tmp_path, monkeypatch, folder, kind):
    """Have the list of mounts say what the file system of a folder is."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:0 / / rw - ext4 /dev/sda rw\n\n23 22 {number} / /m rw shared:1 - {kind} h:/x rw\n"
    )
    monkeypatch.setattr("toolwatch._mounts.MOUNTS", mounts)
    return device


def test_with_no_descriptor_at_all_the_error_is_one_of_the_package_s(root):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    batches = watch_tools(root)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with pytest.raises(WatchUnavailableError, match="Too many open files"):
            next(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse", "fuse.sshfs", "vboxsf", "virtiofs"])
def test_file_systems_that_others_change_unheard_are_known(tmp_path, monkeypatch, kind):
    assert silent_file_system(mounted(tmp_path, monkeypatch, tmp_path, kind)) == kind


@pytest.mark.parametrize("kind", ["ext4", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs"])
def test_file_systems_of_this_machine_announce_their_changes(tmp_path, monkeypatch, kind):
    assert silent_file_system(mounted(tmp_path, monkeypatch, tmp_path, kind)) is None


def test_a_device_that_is_not_listed_and_a_list_that_is_not_there_count_as_local(
    tmp_path, monkeypatch
):
    device = mounted(tmp_path, monkeypatch, tmp_path, "nfs")
    assert silent_file_system(device + 1) is None
    monkeypatch.setattr("toolwatch._mounts.MOUNTS", tmp_path / "absent")
    assert silent_file_system(device) is None


def test_a_root_on_a_network_file_system_is_polled_and_that_is_said(
    root, tmp_path, monkeypatch, caplog
):
    mounted(tmp_path, monkeypatch, root, "nfs4")
    with caplog.at_level(logging.INFO, "toolwatch"), closing(watch_tools(root)) as batches:
        assert next(batches).polling
        (root / "tool.py").write_text("x")
        batch = next(batches)
        assert (batch.paths, batch.polling) == ({PurePosixPath("tool.py")}, True)
        shutil.rmtree(root)
        root.mkdir()
        (root / "again.py").write_text("x")
        next(batches)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{root} is looked through at intervals: "
        f"{root} is on nfs4, which announces no one else's changes"
    )


def test_notifications_can_be_relied_on_by_choice(root, tmp_path, monkeypatch):
    mounted(tmp_path, monkeypatch, root, "nfs4")
    with closing(watch_tools(root, polling=False)) as batches:
        assert not next(batches).polling


def test_polling_by_choice_is_no_news(root, caplog):
    with caplog.at_level(logging.INFO, "toolwatch"), closing(watch_tools(root, polling=True)) as b:
        assert next(b).polling
    assert not caplog.records


def test_a_link_to_a_network_file_system_has_its_root_polled(root, tmp_path, monkeypatch):
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == root.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    with tempfile.TemporaryDirectory(dir=memory) as there:
        mounted(tmp_path, monkeypatch, memory, "nfs")
        with closing(watch_tools(root)) as batches:
            assert not next(batches).polling
            (root / "linked").symlink_to(there, target_is_directory=True)
            while not (batch := next(batches)).polling:
                pass
            assert batch.rescan
            Path(there, "tool.py").write_text("x")
            assert next(batches).paths == {PurePosixPath("linked/tool.py")}


@contextmanager
def nobody():
    """Give a folder of an unprivileged user, and be that user, if need be."""
    folder = Path(tempfile.mkdtemp())
    privileged = os.geteuid() == 0
    if privileged:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if privileged:
            os.seteuid(0)
        shutil.rmtree(folder)


@pytest.mark.parametrize("polling", [None, True], ids=["notified", "polled"])
def test_a_folder_that_may_not_be_read_is_looked_at_once_it_may(polling):
    with nobody() as root:
        locked = root / "locked"
        (locked / "inner").mkdir(parents=True)
        locked.chmod(0)
        with closing(watch_tools(root, polling=polling)) as batches:
            assert next(batches).rescan
            for mode in (0o400, 0o700):
                locked.chmod(mode)
                assert PurePosixPath("locked") in next(batches).paths
            (locked / "inner" / "tool.py").write_text("x")
            assert next(batches).paths == {PurePosixPath("locked/inner/tool.py")}


def test_a_root_that_may_not_be_read_is_polled_until_it_may(caplog):
    with nobody() as above:
        root = above / "root"
        root.mkdir(0)
        with closing(watch_tools(root)) as batches:
            assert next(batches).polling
            root.chmod(0o700)
            assert next(batches).rescan
            (root / "tool.py").write_text("x")
            assert next(batches).paths == {PurePosixPath("tool.py")}
    assert "it cannot be watched (Permission denied)" in caplog.text


def test_a_root_whose_mode_changes_is_looked_at_again(root):
    with closing(watch_tools(root)) as batches:
        next(batches)
        root.chmod(0o500)
        assert next(batches).rescan


def test_no_thread_is_needed_on_linux(root):
    before = threading.active_count()
    with closing(watch_tools(root)) as batches:
        next(batches)
        assert threading.active_count() == before
