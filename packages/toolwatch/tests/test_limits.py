"""Changes without notifications are found, and batches say that the root is polled."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import watchfiles  # noqa: F401 - an unprivileged user could not import it later
from toolwatch import watch_tools

from .conftest import PATIENCE

resource = pytest.importorskip("resource", reason="these limits exist only on Linux")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these limits exist only on Linux")

CHILD = """
import logging, sys
from pathlib import Path
import toolwatch._root
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
def test_a_watch_limit_causes_polling_and_is_reported_once(root, limit, reason):
    for number in range(5):
        (root / f"folder_{number}").mkdir()
    output = run_limited(
        root,
        limit,
        """
batches = watch_tools(root)
print(next(batches).polling)
for _ in range(3):
    batch = next(batches)
print(batch.rescan, batch.polling)
""",
    )
    log, first, *last = output.splitlines()
    assert log.startswith(f"log: {root} is polled: ")
    assert reason in log
    assert (first, last) == ("True", ["True True"])


def test_a_watch_limit_reached_later_loses_no_change(root):
    output = run_limited(
        root,
        ("max_inotify_watches", 4),
        """
toolwatch._root._RESCAN_SECONDS = 0.5
batches = watch_tools(root)
print(next(batches).polling)
for number in range(8):
    (root / f"folder_{number}").mkdir()
until(batches, lambda batch: batch.rescan or "folder_7" in map(str, batch.paths))
path = "folder_7/tool.py"
(root / path).write_text("x")
print(bool(until(batches, lambda batch: batch.rescan or path in map(str, batch.paths))))
""",
    )
    first, *_, last = output.splitlines()
    assert (first, last) == ("False", "True")


def test_a_burst_of_two_thousand_files_ends_in_a_rescan(root):
    with closing(watch_tools(root)) as batches:
        next(batches)
        for number in range(2_000):
            (root / f"tool_{number}.py").write_text("x")
        while not next(batches).rescan:
            pass


def test_without_free_descriptors_a_root_is_polled(root):
    # In a separate process, because watches of other tests may close their files late.
    ran = run_alone(
        root,
        """
import os, resource, watchfiles
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
batches = watch_tools(root)
print(next(batches).polling)
""",
    )
    assert ran.stderr == ""
    log, polling = ran.stdout.splitlines()
    assert "Too many open files" in log
    assert polling == "True"


def test_polling_that_was_requested_finds_changes_by_rescans_and_is_not_reported(root, caplog):
    with caplog.at_level(logging.INFO, "toolwatch"), closing(watch_tools(root, polling=True)) as b:
        assert [(batch.rescan, batch.polling) for batch in (next(b), next(b))] == [(True, True)] * 2
    assert not caplog.records


@pytest.mark.usefixtures("soon")
def test_what_the_system_does_not_report_is_found_by_the_next_rescan(root, tmp_path):
    """A file is written through another hard link, as if by another machine."""
    (root / "tool.py").write_text("x")
    other = tmp_path / "other_name.py"
    other.hardlink_to(root / "tool.py")
    with closing(watch_tools(root)) as batches:
        next(batches)
        other.write_text("longer")
        batch = next(batches)
    assert (batch.rescan, batch.polling) == (True, False)


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


def test_an_unreadable_folder_causes_polling():
    with nobody() as root:
        (root / "locked").mkdir(0)
        with closing(watch_tools(root)) as batches:
            assert (next(batches).polling, next(batches).rescan) == (True, True)


def test_a_root_whose_permissions_change_is_scanned_again(root):
    with closing(watch_tools(root)) as batches:
        next(batches)
        root.chmod(0o500)
        assert next(batches).rescan
