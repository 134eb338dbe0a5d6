"""Changes without notifications are found, and batches say that the root is polled."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import pytest
import watchfiles  # noqa: F401 - an unprivileged user could not import it later
from toolwatch import WatchUnavailableError, watch_tools

from .conftest import PATIENCE

resource = pytest.importorskip("resource", reason="these limits exist only on Linux")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these limits exist only on Linux")

CHILD = """
import logging, sys
from pathlib import Path
import toolwatch._tree
from toolwatch import watch_tools

root = Path(sys.argv[1])
logging.basicConfig(stream=sys.stdout, format="log: %(message)s")

def until(batches, wanted):
    for batch in batches:
        if wanted(batch):
            return batch
"""


def run_limited(root, limit, code):
    """Run code in a separate user namespace, with its own limits."""
    name, number = limit
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    set_limit = f"echo {number} > /proc/sys/user/{name} || exit 77"
    unshare = ("unshare", "--user", "--map-root-user", "sh", "-c", f'{set_limit}; exec "$@"', "sh")
    ran = run_alone(root, code, *unshare)
    if ran.returncode == 77 or "unshare:" in ran.stderr:
        pytest.skip("user namespaces are not available here")
    assert ran.stderr == ""
    return ran.stdout


def run_alone(root, code, *command):
    """Run code in a separate process, with a command before it."""
    return subprocess.run(
        [*command, sys.executable, "-W", "error", "-c", CHILD + code, str(root)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (("max_inotify_watches", 3), "OS file watch limit reached"),
        (("max_inotify_instances", 0), "Too many open files"),
    ],
)
def test_a_watch_limit_reached_at_the_start_causes_polling(root, limit, reason):
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
    assert log.startswith(f"log: {root} is polled: ")
    assert reason in log
    assert (polling, path) == ("True", "folder_4/tool.py")


def test_a_watch_limit_reached_later_causes_polling_after_a_missed_change(root):
    said = run_limited(
        root,
        ("max_inotify_watches", 4),
        """
toolwatch._tree._LONG_SECONDS = 0.5
toolwatch._tree._PROOF_SECONDS = 0.1
batches = watch_tools(root)
print(next(batches).polling)
for number in range(8):
    (root / f"folder_{number}").mkdir()
batch = until(batches, lambda batch: "folder_7" in map(str, batch.paths))
turn = 0
while not batch.polling:
    path = f"folder_{turn % 8}/tool_{turn}.py"
    (root / path).write_text("x")
    batch = until(batches, lambda batch: path in map(str, batch.paths))
    turn += 1
print(batch.polling)
""",
    )
    first, *log, last = said.splitlines()
    assert (first, last) == ("False", "True")
    assert "is polled" in "".join(log)


def test_a_watch_limit_reached_by_one_root_does_not_delay_another(root, tmp_path):
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


def test_missed_changes_are_found_and_the_root_is_polled_for_a_while(
    root, tmp_path, monkeypatch, caplog
):
    """A file is written through another hard link, as if by another machine."""
    monkeypatch.setattr("toolwatch._tree._LONG_SECONDS", 0.5)
    monkeypatch.setattr("toolwatch._tree._PROOF_SECONDS", 0.1)
    monkeypatch.setattr("toolwatch._tree._GROWTH", 1.5)
    (root / "tool.py").write_text("x")
    other = tmp_path / "other_name.py"
    other.hardlink_to(root / "tool.py")
    with closing(watch_tools(root)) as batches:
        batch = next(batches)
        while not batch.polling:
            other.write_text(other.read_text() + "x")
            batch = next(batches)
            assert batch.paths == {PurePosixPath("tool.py")}
        # It is no longer polled once rounds find nothing, however late a report may come.
        monkeypatch.setattr("toolwatch._tree._PROOF_SECONDS", PATIENCE)
        while batch.polling:
            (root / "announced.py").write_text(str(time.monotonic()))
            batch = next(batches)
            assert batch.paths == {PurePosixPath("announced.py")}
    (record,) = caplog.records
    assert record.getMessage() == (f"{root} is polled: the system does not report every change")


def test_polling_can_be_switched_off(root, tmp_path, monkeypatch):
    monkeypatch.setattr("toolwatch._tree._LONG_SECONDS", 0.5)
    monkeypatch.setattr("toolwatch._tree._PROOF_SECONDS", 0.1)
    (root / "tool.py").write_text("x")
    other = tmp_path / "other_name.py"
    other.hardlink_to(root / "tool.py")
    with closing(watch_tools(root, polling=False)) as batches:
        next(batches)
        for _ in range(4):
            other.write_text(other.read_text() + "x")
            batch = next(batches)
            assert batch.paths == {PurePosixPath("tool.py")}
            assert not batch.polling


def test_a_burst_of_two_thousand_files_ends_in_a_rescan(root, way):
    with closing(watch_tools(root, polling=True if way == "polled" else None)) as batches:
        next(batches)
        for number in range(2_000):
            (root / f"tool_{number}.py").write_text("x")
        assert next(batches).rescan


def test_without_free_descriptors_a_root_is_polled_until_it_can_be_read(root):
    # In a separate process, because watches of other tests may close their files late.
    ran = run_alone(
        root,
        """
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
batches = watch_tools(root)
next(batches)
free = os.dup(0)
os.close(free)
# Before the change, because watchfiles opens new folders.
resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
(root / "new").mkdir()
batch = next(batches)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(batch.rescan, batch.polling)
(root / "new" / "tool.py").write_text("x")
seen = next(batches)
print(seen.rescan or "new" in map(str, seen.paths))
""",
    )
    assert ran.stderr == ""
    log, *said = ran.stdout.splitlines()
    assert "cannot be read (Too many open files)" in log
    assert said == ["True True", "True"]


def test_without_any_descriptor_the_error_is_a_tool_watch_error(root):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    batches = watch_tools(root)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with pytest.raises(WatchUnavailableError, match="Too many open files"):
            next(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_polling_that_was_requested_is_not_reported(root, caplog):
    with caplog.at_level(logging.INFO, "toolwatch"), closing(watch_tools(root, polling=True)) as b:
        assert next(b).polling
    assert not caplog.records


@contextmanager
def nobody():
    """Create a folder for an unprivileged user, and become that user if necessary."""
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


@pytest.mark.parametrize("polling", [None, True], ids=["hinted", "polled"])
def test_an_unreadable_folder_is_scanned_once_it_is_readable(polling):
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


def test_an_unreadable_root_is_polled_until_it_is_readable(caplog, monkeypatch):
    # Listening again would be another reason for a rescan.
    monkeypatch.setattr("toolwatch._tree._RETRY_SECONDS", 3600)
    with nobody() as above:
        root = above / "root"
        root.mkdir(0)
        with closing(watch_tools(root)) as batches:
            assert next(batches).polling
            root.chmod(0o700)
            assert next(batches).rescan
            (root / "tool.py").write_text("x")
            assert next(batches).paths == {PurePosixPath("tool.py")}
    assert "Permission denied" in caplog.text


def test_a_root_whose_permissions_change_is_scanned_again(root):
    with closing(watch_tools(root)) as batches:
        next(batches)
        root.chmod(0o500)
        assert next(batches).rescan
