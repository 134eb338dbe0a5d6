"""Scanning a tree: tools, unchanged files, and issues."""

import contextlib
import gc
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import toolscan
from hypothesis import given
from hypothesis import strategies as st
from toolscan import Layout, ScanReport, ToolScanError, scan

from .conftest import PATIENCE

GOOD = "def run(a):\n    'Does it.'\n"
NEIGHBOUR = "mcptools/demo/neighbour.py"
OLD = time.time() - 3600


def ids(report):
    return [str(record.id) for record in report.records]


def reasons(report):
    return {issue.path: issue.reason for issue in report.issues}


def settled(root):
    """Make the tree look as if its files had been written long ago, and return their stamps.

    Not all times of a file can be set, so the stamps are taken from the files.
    """
    stamps = {}
    for path in root.rglob("*.py"):
        os.utime(path, (OLD, OLD))
        stamps[path.relative_to(root).as_posix()] = toolscan._source.stamp_of(path.stat())
    return stamps


@pytest.fixture
def stopped_clock(monkeypatch):
    """Stop the clock that the age of files is read from, so that no file settles during a test."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)


@pytest.mark.usefixtures("stopped_clock")
def test_records_are_sorted_by_id_and_issues_by_path(tree):
    root = tree(
        {
            "mcptools/b/x.py": GOOD,
            "mcptools/a/y.py": GOOD,
            "mcptools/a/x.py": GOOD,
            "gentools/c/tool/api.py": GOOD,
            "gentools/c/tool/impl.py": "1/0",
            "mcptools/b/_private.py": GOOD,
            "mcptools/_b/x.py": GOOD,
            "mcptools/b/__init__.py": "",
            "mcptools/b/notes.txt": "not a tool",
            "mcptools/readme.py": "too high up",
            "elsewhere/b/x.py": GOOD,
        }
    )
    report = scan(root)
    assert ids(report) == ["gentools:c:tool", "mcptools:a:x", "mcptools:a:y", "mcptools:b:x"]
    assert reasons(report) == {
        "mcptools/_b/x.py": "private",
        "mcptools/b/_private.py": "private",
    }
    assert list(reasons(report)) == sorted(reasons(report))
    assert report.records[1].path == "mcptools/a/x.py"
    assert pickle.loads(pickle.dumps(report)) == report
    assert scan(str(root)) == scan(root, layouts=list(toolscan.LAYOUTS.values())[:2]) == report


def test_an_empty_tree_has_an_empty_report(tmp_path):
    assert scan(tmp_path) == ScanReport()


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_root_that_is_not_a_directory_is_an_error(name, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is not a directory") as caught:
        scan(tmp_path / name)
    assert isinstance(caught.value, ToolScanError)


def test_nothing_in_the_tree_is_run(tree):
    root = tree({"mcptools/c/t.py": "raise SystemExit\nopen('made', 'w')\n" + GOOD})
    assert ids(scan(root)) == ["mcptools:c:t"]


BAD = {
    "syntax error": ("def run(:\n", "syntax_error"),
    "Python 2": ("def run():\n    print 'x'\n", "syntax_error"),
    "Python 2 exceptions": ("try: pass\nexcept A, e: pass\n", "syntax_error"),
    "indentation": ("def run():\n'Does it.'\n", "syntax_error"),
    "NUL": (b"def run():\n    'Does\0 it.'\n", "nul_bytes"),
    "UTF-16": ("def run(): 'D.'".encode("utf-16"), "nul_bytes"),
    "not UTF-8": (b"def run():\n    '\xe9'\n", "encoding"),
    "not what it declares": (b"# coding: ascii\ndef run():\n    '\xe9'\n", "encoding"),
    "unknown encoding": (b"# coding: klingon\ndef run():\n    'D.'\n", "encoding"),
    "not a text encoding": (b"# coding: rot13\ndef run():\n    'D.'\n", "encoding"),
    "not for source": (b"# coding: Punycode\ndef run():\n    'D.'\n", "encoding"),
    "empty": ("", "empty"),
    "only a BOM": (b"\xef\xbb\xbf", "empty"),
    "blank": (" \n\t\n", "empty"),
    "comment": ("# nothing\n", "no_entrypoint"),
    "10 MB": ("x = 1\n" * 1_750_000, "too_large"),
    "parentheses": ("(" * 10_000 + ")" * 10_000, "too_deep"),
    "minus": ("-" * 10_000 + "1", "too_deep"),
    "sum": ("+".join(["1"] * 10_000), "too_deep"),
    "attributes": ("x" + ".a" * 10_000, "too_deep"),
    "lambda": ("lambda:" * 10_000 + "1", "too_deep"),
    "indented": ("".join(" " * i + "if 1:\n" for i in range(200)), "too_deep"),
    "deep annotation": (
        "def run(\n a: " + "[" * 150 + "\n" + "]" * 150 + " + 1" * 900 + "\n):\n    'D.'\n",
        "too_deep",
    ),
    "surrogate in the docstring": ("def run():\n    'a\\ud800'\n", "surrogate"),
    "surrogate in a description": (
        "from pydantic import *\nclass Params(BaseModel):\n"
        "    a: int = Field(description='\\udfff')\ndef run(params: Params):\n    'D.'\n",
        "surrogate",
    ),
    "surrogate in a tag": ("__tags__ = ['\\ud800']\ndef run():\n    'D.'\n", "surrogate"),
    "surrogate in a use case": (
        "__use_cases__ = ['\\ud800']\ndef run():\n    'D.'\n",
        "surrogate",
    ),
    "surrogate by encoding": (b"# coding: utf-7\nx = '+2AA-'\n" + GOOD.encode(), "surrogate"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.filterwarnings("error")
def test_a_bad_file_is_an_issue_and_other_files_are_read(kind, tree, capfd):
    content, reason = BAD[kind]
    path = "mcptools/demo/bad.py"
    root = tree({path: content, NEIGHBOUR: GOOD})
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {path: reason}
    detail = report.issues[0].detail
    assert detail.endswith(".")
    assert detail.isprintable()
    assert ("Python 2" in detail) == kind.startswith("Python 2")
    with pytest.raises(toolscan.ToolScanError, match=r"bad\.py") as caught:
        toolscan.read_tool(path, root)
    assert caught.value.issue == report.issues[0]
    assert capfd.readouterr() == ("", "")


READ = {
    "BOM": b"\xef\xbb\xbfdef run():\n    '\xc3\xa9'\n",
    "latin-1": b"# -*- coding: latin-1 -*-\ndef run():\n    '\xe9'\n",
    "second line": b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\ndef run():\n    '\xe9'\n",
    "blank first line": b"\n# coding=iso-8859-15\ndef run():\n    '\xe9'\n",
    "a cookie on the third line is ignored": b"#\n#\n# coding: ascii\ndef run():\n    '\xc3\xa9'\n",
    "a cookie after code is ignored": b"x = 1\n# coding: ascii\ndef run():\n    '\xc3\xa9'\n",
    "BOM and cookie": b"\xef\xbb\xbf# coding: utf-8\ndef run():\n    '\xc3\xa9'\n",
    "carriage returns": b"#\r# coding: latin-1\rdef run():\r    '\xe9'\r",
    "Windows": b"def run():\r\n    '\xc3\xa9'\r\n",
    "form feed": b"\x0cdef run():\n    '\xc3\xa9'\n",
}


@pytest.mark.parametrize("kind", READ)
def test_every_encoding_that_python_reads_is_read(kind, tree):
    (record,) = scan(tree({"mcptools/c/t.py": READ[kind]})).records
    assert record.description == "é"


@pytest.mark.filterwarnings("error")
def test_invalid_escapes_cause_no_warning(tree, capfd):
    source = (
        'def run(a: "Optional[\'\\\\d\']" = "\\d"):\n    "Matches \\d."\n    return 1if x else 2\n'
    )
    filters = [*warnings.filters]
    for _ in range(2):
        (record,) = scan(tree({"mcptools/c/t.py": source})).records
    toolscan.input_schema(record)
    assert record.description == "Matches \\d."
    assert warnings.filters == filters
    assert capfd.readouterr() == ("", "")


def test_a_file_of_the_largest_size_is_read(tree):
    source = GOOD + "#" * (2 * 1024 * 1024 - len(GOOD))
    assert ids(scan(tree({"mcptools/c/t.py": source}))) == ["mcptools:c:t"]


def test_an_id_part_with_a_colon_is_an_issue(tree):
    root = tree({"mcptools/demo/a:b.py": GOOD, NEIGHBOUR: GOOD})
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {"mcptools/demo/a:b.py": "invalid_id"}
    assert "contains ':'" in report.issues[0].detail


def test_a_name_with_a_control_character_is_shown_escaped(tree):
    report = scan(tree({"mcptools/demo/a\nb.py": GOOD, NEIGHBOUR: GOOD}))
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {"mcptools/demo/a\\nb.py": "invalid_id"}


@pytest.mark.skipif(
    sys.platform in ("darwin", "win32"), reason="file names are Unicode on this system"
)
def test_a_name_that_is_not_utf_8_is_shown_escaped(tree):
    root = tree({NEIGHBOUR: GOOD})
    for folder in (b"demo", b"\xff"):
        (root / "mcptools" / os.fsdecode(folder)).mkdir(exist_ok=True)
        (root / "mcptools" / os.fsdecode(folder) / os.fsdecode(b"a\xe9.py")).write_text(GOOD)
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {
        r"mcptools/\xff/a\xe9.py": "name_encoding",
        r"mcptools/demo/a\xe9.py": "name_encoding",
    }
    for issue in report.issues:
        assert issue.path.encode()
    with pytest.raises(toolscan.ToolScanError) as caught:
        toolscan.read_tool(os.fsdecode(b"mcptools/demo/a\xe9.py"), root)
    assert caught.value.issue.reason == "name_encoding"


def test_names_can_be_in_any_alphabet(tree):
    assert ids(scan(tree({"mcptools/café/読む.py": GOOD}))) == ["mcptools:café:読む"]


def test_a_path_that_the_system_refuses_is_an_issue(tree):
    root = tree({NEIGHBOUR: GOOD})
    with pytest.raises(toolscan.ToolScanError) as caught:
        toolscan.read_tool(f"mcptools/demo/{'x' * 5_000}.py", root)
    assert caught.value.issue.reason == "unreadable"


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="there is no /proc here")
def test_a_file_that_reports_a_wrong_size_is_read(tree):
    root = tree({NEIGHBOUR: GOOD})
    (root / "mcptools/demo/version.py").symlink_to("/proc/version")
    report = scan(root)
    assert reasons(report) == {"mcptools/demo/version.py": "syntax_error"}


def test_names_that_differ_by_case_are_different_tools(tree):
    root = tree({"mcptools/demo/Get.py": GOOD})
    if (root / "mcptools/demo/get.py").exists():
        pytest.skip("the file system ignores case")
    (root / "mcptools/demo/get.py").write_text(GOOD)
    assert ids(scan(root)) == ["mcptools:demo:Get", "mcptools:demo:get"]


def test_a_path_that_differs_from_the_file_name_in_case_finds_nothing(tree):
    root = tree({"mcptools/demo/get.py": GOOD})
    # On a file system that ignores case, the file exists under this name too; its id must not.
    assert scan(root, within=["mcptools/Demo/GET.py"]) == ScanReport()


TWICE = (
    Layout("tools", "tools/{category}/{name}.py"),
    Layout("tools", "more/{category}/{name}.py"),
    Layout("other", "more/{category}/{name}.py"),
)


@pytest.mark.parametrize("within", [None, ["more/c/t.py"], ["more"]])
def test_the_first_layout_wins_if_two_files_have_the_same_id(within, tree):
    root = tree({"tools/c/t.py": GOOD, "more/c/t.py": GOOD, "more/c/u.py": GOOD})
    report = scan(root, layouts=TWICE, within=within)
    assert reasons(report) == {"more/c/t.py": "duplicate_id"}
    assert "tools/c/t.py" in report.issues[0].detail
    assert set(ids(report)) <= {"tools:c:t", "tools:c:u"}
    with pytest.raises(toolscan.ToolScanError) as caught:
        toolscan.read_tool("more/c/t.py", root, layouts=TWICE)
    assert caught.value.issue == report.issues[0]


def test_a_duplicate_is_never_unchanged(tree):
    root = tree({"more/c/t.py": GOOD})
    stamps = settled(root)
    assert scan(root, layouts=TWICE, known=stamps).unchanged == ("more/c/t.py",)
    tree({"tools/c/t.py": GOOD})
    report = scan(root, layouts=TWICE, known=stamps)
    assert ids(report) == ["tools:c:t"]
    assert reasons(report) == {"more/c/t.py": "duplicate_id"}


def test_a_folder_reached_by_two_names_has_each_tool_once(tree):
    # As on a file system that ignores case, with layouts that differ by case.
    root = tree({"tools/c/t.py": GOOD})
    (root / "more").symlink_to("tools")
    report = scan(root, layouts=TWICE[:2])
    assert ids(report) == ["tools:c:t"]
    assert reasons(report) == {"more/c/t.py": "duplicate_id"}


def test_a_directory_named_like_a_module_is_an_issue(tree):
    root = tree({"mcptools/demo/x.py/inner.py": GOOD, NEIGHBOUR: GOOD})
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {"mcptools/demo/x.py": "not_a_file"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_pipes_sockets_and_devices_do_not_block(tree, monkeypatch):
    root = tree({NEIGHBOUR: GOOD})
    folder = root / "mcptools/demo"
    os.mkfifo(folder / "pipe.py")
    (folder / "null.py").symlink_to("/dev/null")
    monkeypatch.chdir(folder)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {
        "mcptools/demo/null.py": "not_a_file",
        "mcptools/demo/pipe.py": "not_a_file",
        "mcptools/demo/socket.py": "not_a_file",
    }


def test_links_are_followed_and_loops_are_not(tree):
    root = tree({NEIGHBOUR: GOOD, "elsewhere/t.py": GOOD})
    folder = root / "mcptools"
    (folder / "linked").symlink_to(root / "elsewhere")
    (folder / "demo/self.py").symlink_to("self.py")
    (folder / "demo/gone.py").symlink_to("nothing.py")
    (folder / "self").symlink_to("self")
    (folder / "up").symlink_to("..")
    (folder / "here").symlink_to(".")
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour", "mcptools:linked:t"]
    assert reasons(report) == {
        "mcptools/demo/gone.py": "broken_link",
        "mcptools/demo/self.py": "symlink_loop",
        "mcptools/here": "symlink_loop",
        "mcptools/self": "symlink_loop",
        "mcptools/up": "symlink_loop",
    }


@pytest.fixture
def forbidden(tree):
    root = tree({NEIGHBOUR: GOOD, "mcptools/demo/secret.py": GOOD, "mcptools/closed/t.py": GOOD})
    paths = [root / "mcptools/demo/secret.py", root / "mcptools/closed"]
    for path in paths:
        path.chmod(0)
    yield root, not os.access(paths[0], os.R_OK)
    for path in paths:
        path.chmod(0o700)


def test_an_unreadable_file_is_an_issue(forbidden):
    root, binds = forbidden
    if not binds:
        pytest.skip("permissions do not apply to this user")
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {
        "mcptools/closed": "unreadable",
        "mcptools/demo/secret.py": "unreadable",
    }


DENIED = """
import os, sys, toolscan
os.setgid(65534); os.setuid(65534)
for issue in toolscan.scan(sys.argv[1]).issues:
    print(issue.path, issue.reason, issue.detail)
"""


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can become another user"
)
def test_an_unreadable_file_is_an_issue_for_an_ordinary_user(forbidden, tmp_path):
    root, _ = forbidden
    for folder in (root, *root.parents):
        # Only the folders that pytest created for this run are closed to other users.
        if folder == root or folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    source = Path(toolscan.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", DENIED, str(root)], capture_output=True, text=True,
        env={"PYTHONPATH": str(source), "PATH": ""}, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"another user cannot run this Python: {done.stderr.splitlines()[-1]}")
    assert done.stdout.splitlines() == [
        "mcptools/closed unreadable It cannot be read: Permission denied.",
        "mcptools/demo/secret.py unreadable It cannot be read: Permission denied.",
    ]


class Removing(dict):
    """Known stamps that change a file when they are looked up: after listing, before reading."""

    def __init__(self, root, action):
        super().__init__()
        self.root, self.action = root, action

    def get(self, path, default=None):
        if path.endswith("vanishing.py"):
            self.action(self.root / path)
        return default


def test_a_file_that_vanishes_between_listing_and_reading_is_an_issue(tree):
    root = tree({"mcptools/demo/vanishing.py": GOOD, NEIGHBOUR: GOOD})
    report = scan(root, known=Removing(root, Path.unlink))
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert reasons(report) == {"mcptools/demo/vanishing.py": "vanished"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders")
def test_a_file_that_becomes_a_pipe_does_not_block(tree):
    root = tree({"mcptools/demo/vanishing.py": GOOD, NEIGHBOUR: GOOD})

    def replace(path):
        path.unlink()
        os.mkfifo(path)

    report = scan(root, known=Removing(root, replace))
    assert reasons(report) == {"mcptools/demo/vanishing.py": "not_a_file"}


def test_folders_that_vanish_during_a_scan_are_left_out(tree):
    root = tree({f"mcptools/{name}/vanishing.py": GOOD for name in "ab"})

    def remove_all(_):
        for name in "ab":
            (root / "mcptools" / name / "vanishing.py").unlink()
            (root / "mcptools" / name).rmdir()

    report = scan(root, known=Removing(root, remove_all))
    assert sorted(reasons(report).values()) == ["vanished"] * 2
    assert sorted(path.count("/") for path in reasons(report)) == [1, 2]


@pytest.mark.usefixtures("stopped_clock")
def test_a_file_that_is_written_constantly_is_read_without_a_stamp(tree):
    root = tree({"mcptools/demo/busy.py": GOOD})
    path, stop = root / "mcptools/demo/busy.py", threading.Event()

    def write():
        with path.open("r+b", buffering=0) as file:
            while not stop.is_set():
                if not 0 < file.tell() < 100_000:
                    file.seek(len(GOOD))
                file.write(b"# more\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            record = toolscan.read_tool(path, root)
            assert record.stamp is None
            assert record.description == "Does it."
    finally:
        stop.set()
        writer.join(PATIENCE)


@pytest.mark.parametrize("part", range(4))
def test_a_file_is_read_again_when_anything_in_its_stamp_differs(part, tree):
    root = tree({"mcptools/c/t.py": GOOD})
    stamp = settled(root)["mcptools/c/t.py"]
    other = tuple(value + (number == part) for number, value in enumerate(stamp))
    assert scan(root, known={"mcptools/c/t.py": stamp}).records == ()
    assert ids(scan(root, known={"mcptools/c/t.py": other})) == ["mcptools:c:t"]


def test_an_edit_that_keeps_size_and_mtime_is_noticed(tree):
    root = tree({"mcptools/c/t.py": GOOD})
    stamps = settled(root)
    path = root / "mcptools/c/t.py"
    # The change time cannot be set; it ticks every few milliseconds.
    while path.stat().st_ctime_ns == stamps["mcptools/c/t.py"][2]:
        path.write_text(GOOD.replace("Does it.", "Did it!!"))
        os.utime(path, (OLD, OLD))
    (record,) = scan(root, known=stamps).records
    assert record.description == "Did it!!"


@pytest.mark.usefixtures("stopped_clock")
def test_a_file_changed_just_now_gets_no_stamp(tree):
    root = tree({"mcptools/c/t.py": GOOD})
    assert scan(root).records[0].stamp is None
    os.utime(root / "mcptools/c/t.py", (OLD, OLD))  # its change time is still recent
    assert scan(root).records[0].stamp is None


def test_a_file_that_has_settled_gets_a_stamp():
    # A change time cannot be set, so this reads a file that is much older than the test.
    library = Path(os.__file__).parent
    layout = Layout("library", "{category}/{name}.py")
    record = toolscan.read_tool("asyncio/runners.py", library, layouts=[layout])
    status = (library / "asyncio/runners.py").stat()
    assert record.stamp == toolscan._source.stamp_of(status)


def test_within_limits_the_scan_to_its_paths(tree, monkeypatch):
    root = tree({f"mcptools/{c}/{t}.py": GOOD for c in "ab" for t in "xy"})
    (root / "gentools/a/z").mkdir(parents=True)
    (root / "gentools/a/z/api.py").write_text(GOOD)
    everything = ids(scan(root))
    monkeypatch.chdir(root)
    for within, expected in [
        ([], []),
        (["mcptools/a/x.py"], ["mcptools:a:x"]),
        ([Path("mcptools/a/x.py"), "mcptools/b"], ["mcptools:a:x", "mcptools:b:x", "mcptools:b:y"]),
        (["mcptools/b", "mcptools/b/x.py", "mcptools/b/x.py"], ["mcptools:b:x", "mcptools:b:y"]),
        (["mcptools/b/x.py", "mcptools/b"], ["mcptools:b:x", "mcptools:b:y"]),
        ([root / "mcptools/a/y.py"], ["mcptools:a:y"]),
        (["./mcptools/../mcptools/a/y.py"], ["mcptools:a:y"]),
        (["gentools/a/z"], ["gentools:a:z"]),
        (["gentools/a/z/impl.py"], []),
        (["mcptools/gone", "mcptools/a/gone.py", "mcptools/a/x.py/deeper"], []),
        (["."], everything),
        ([""], everything),
        ([root], everything),
        ([root.parent], everything),
        (["/"], everything),
        ([root.parent / "elsewhere", "../elsewhere"], []),
    ]:
        assert ids(scan(root, within=within)) == expected, within
        assert ids(scan(".", within=within)) == expected, within


NAMES = st.sampled_from(["mcptools", "a", "b", "x.py", "y.py", "..", "."])


def test_within_accepts_paths_through_the_target_of_a_linked_root(tree, tmp_path_factory):
    root = tree({"mcptools/a/x.py": GOOD})
    link = tmp_path_factory.mktemp("links") / "root"
    link.symlink_to(root)
    for path in (root / "mcptools/a", link / "mcptools/a"):
        assert ids(scan(link, within=[path])) == ["mcptools:a:x"]
    assert toolscan.read_tool(root / "mcptools/a/x.py", link).path == "mcptools/a/x.py"


@given(within=st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=4))
def test_scans_of_parts_agree_with_a_full_scan(within, tmp_path_factory):
    root = tmp_path_factory.getbasetemp() / "parts"
    if not root.exists():
        for category in "ab":
            for name in "xy":
                (root / "mcptools" / category).mkdir(parents=True, exist_ok=True)
                (root / "mcptools" / category / f"{name}.py").write_text(GOOD)

    def below(path):
        full = os.path.normpath(root / path)
        return lambda record: f"{root / record.path}/".startswith(f"{full.rstrip('/')}/")

    def unstamped(records):
        # A file gets a stamp when it is two seconds old, which may be between the two scans.
        return [replace(record, stamp=None) for record in records]

    everything = scan(root).records
    expected = [record for record in everything if any(below(p)(record) for p in within)]
    assert unstamped(scan(root, within=within).records) == unstamped(expected)


def test_a_category_is_described_by_its_package(tree):
    root = tree(
        {
            "mcptools/a/__init__.py": '"""Mail.\n\n    And more.\n    """\n',
            "mcptools/a/t.py": GOOD,
            "mcptools/b/__init__.py": "import os\n'not a docstring'\n",
            "mcptools/c/__init__.py": b"# coding: latin-1\n# \xe9\n\nr'''\xc9t\xe9'''\n",
            "mcptools/d/__init__.py": "",
            "mcptools/e/__init__.py": "'unfinished",
            "mcptools/f/__init__.py": "",
            "mcptools/__init__.py": "'the source'",
            "gentools/g/__init__.py": "('Data.')",
            "gentools/g/t/__init__.py": "'the tool'",
            "gentools/g/t/api.py": GOOD,
            "gentools/h/__init__.py": "# just a comment",
        }
    )
    report = scan(root)
    assert report.categories == {
        "gentools:g": "Data.",
        "mcptools:a": "Mail.\n\nAnd more.",
        "mcptools:c": "Été",
    }
    assert reasons(report) == {"mcptools/e/__init__.py": "syntax_error"}
    assert scan(root, within=["mcptools/a/t.py"]).categories == {"mcptools:a": "Mail.\n\nAnd more."}
    assert scan(root, within=["mcptools/a/__init__.py"]).records == ()


def test_custom_layouts_are_scanned_in_one_pass(tree):
    root = tree(
        {
            "tools/a/x.py": GOOD,
            "tools/a/y/api.py": GOOD,
            "n/of/c/x.py": GOOD,
            "flat/a-b_tool.py": GOOD,
        }
    )
    layouts = [
        Layout("one", "tools/{category}/{name}.py"),
        Layout("two", "tools/{category}/{name}/api.py"),
        Layout("three", "{name}/of/{category}/x.py"),
        Layout("four", "flat/{category}-{name}_tool.py"),
    ]
    assert ids(scan(root, layouts=layouts)) == ["four:a:b", "one:a:x", "three:c:n", "two:a:y"]


def test_only_folders_that_a_layout_can_match_are_listed(tree):
    root = tree({"mcptools/a/x.py": GOOD})
    deep = root / "node_modules"
    deep.mkdir()
    (deep / "loop").symlink_to("loop")
    (root / "mcptools/a/data").mkdir()
    (root / "mcptools/a/data/self").symlink_to("self")
    assert scan(root).issues == ()


@pytest.mark.parametrize(
    "path", ["elsewhere/x.py", "mcptools/x.py", "../x.py", "/x.py", "mcptools/a/__init__.py", "."]
)
def test_reading_a_path_outside_every_layout_raises(path, tree):
    root = tree({"mcptools/a/x.py": GOOD})
    with pytest.raises(toolscan.ToolScanError, match="No layout") as caught:
        toolscan.read_tool(path, root)
    assert caught.value.issue.reason == "no_layout"


def test_reading_a_private_or_missing_file_raises(tree):
    root = tree({"mcptools/a/_x.py": GOOD})
    for path, reason, detail in [
        ("mcptools/a/_x.py", "private", "private"),
        ("mcptools/a/y.py", "vanished", "does not exist"),
    ]:
        with pytest.raises(toolscan.ToolScanError, match=detail) as caught:
            toolscan.read_tool(path, root)
        assert caught.value.issue.reason == reason


@pytest.mark.usefixtures("stopped_clock")
def test_scans_in_threads_agree(tree):
    root = tree({f"mcptools/c/t{n}.py": f"X = '\\d'\n{GOOD}" for n in range(20)})
    expected, reports = scan(root), []
    threads = [threading.Thread(target=lambda: reports.append(scan(root))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert reports == [expected] * 8


@given(st.text())
def test_any_source_text_is_a_record_or_an_issue(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("tree") / "mcptools/c"
    folder.mkdir(parents=True)
    (folder / "whole.py").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "part.py").write_bytes(f"def run({text}):\n 'D.'".encode("utf-8", "ignore"))
    report = scan(folder.parents[1])
    assert len(report.records) + len(report.issues) == 2
    for record in report.records:
        toolscan.input_schema(record)
        toolscan.stub(record)


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_a_file_that_exceeds_the_limits_does_not_affect_others(error, tree, monkeypatch):
    package = "mcptools/demo/__init__.py"
    root = tree({"mcptools/demo/deep.py": GOOD, NEIGHBOUR: GOOD, package: "'D.'"})
    reading = toolscan._scan.read_source

    def read(path, **options):
        if "neighbour" in path:
            return reading(path, **options)
        raise error

    monkeypatch.setattr("toolscan._scan.read_source", read)
    report = scan(root)
    assert ids(report) == ["mcptools:demo:neighbour"]
    assert set(reasons(report).values()) == {"too_deep"}
    assert len(report.issues) == 2


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_a_file_that_exceeds_the_limits_is_an_issue(error, tree, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("toolscan._extract.parse", fail)
    with pytest.raises(toolscan.ToolScanError) as caught:
        toolscan.read_tool(NEIGHBOUR, tree({NEIGHBOUR: GOOD}))
    assert caught.value.issue.reason == "too_deep"


def test_a_warning_filter_set_by_another_thread_hides_no_tool(tree, monkeypatch):
    root = tree({NEIGHBOUR: "def run(a='\\d'):\n    'Does \\d it.'\n"})
    silenced = toolscan._source._without_warnings
    calls = []

    @contextlib.contextmanager
    def late():
        with silenced():
            calls.append(1)
            if len(calls) == 1:
                warnings.simplefilter("error")
            yield

    with warnings.catch_warnings():
        monkeypatch.setattr("toolscan._source._without_warnings", late)
        assert len(scan(root).records) == 1


@pytest.mark.parametrize(
    "within", [NEIGHBOUR, Path(NEIGHBOUR), NEIGHBOUR.encode(), [NEIGHBOUR.encode()]]
)
def test_within_can_be_one_path_or_bytes(within, tree):
    root = tree({NEIGHBOUR: GOOD, "mcptools/demo/other.py": GOOD})
    assert ids(scan(root, within=within)) == ["mcptools:demo:neighbour"]
    assert ids(scan(os.fsencode(root), within=within)) == ["mcptools:demo:neighbour"]


def test_names_and_texts_of_categories_can_be_stored(tree):
    folders = ["_private", "a\nb", "demo"]
    files = {f"mcptools/{name}/__init__.py": "'D.'" for name in folders}
    files["mcptools/odd/__init__.py"] = b"'\\ud800'"
    with contextlib.suppress(OSError):  # if the file system allows such names
        report = scan(tree({**files, os.fsdecode(b"mcptools/\xff/__init__.py"): "'D.'"}))
        assert report.categories == {"mcptools:demo": "D."}
        assert reasons(report) == {"mcptools/odd/__init__.py": "surrogate"}


@pytest.mark.parametrize(
    "call",
    [
        lambda: scan("no such folder"),
        lambda: toolscan.ToolId.parse("a"),
        lambda: Layout("a", "b"),
        lambda: toolscan.read_tool("mcptools/a/b.py", "no such folder"),
    ],
)
def test_errors_survive_pickling(call):
    with pytest.raises(toolscan.ToolScanError) as caught:
        call()
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_progress_counts_the_files_examined(tmp_path):
    folder = tmp_path / "mcptools" / "mail"
    folder.mkdir(parents=True)
    for name in ("send", "read", "broken"):
        (folder / f"{name}.py").write_text("def run():\n    'Do it.'\n" * (name != "broken"))
    seen = []

    report = toolscan.scan(tmp_path, progress=seen.append)

    assert seen == [1, 2, 3]
    assert len(report.records) + len(report.issues) == 3


def test_parsed_modules_are_freed_without_the_garbage_collector(tree):
    module = "from pydantic import BaseModel\nclass Params(BaseModel):\n    a: int\n"
    module += "def run(params: Params):\n    'Does it.'\n"
    counts = []
    for name in ("one", "two", "three"):
        root = tree({f"mcptools/demo/{name}.py": module})
        scan(root)
        gc.collect()
        gc.disable()
        try:
            scan(root)
            counts.append(gc.collect())
        finally:
            gc.enable()
    assert len(set(counts)) == 1


def test_of_several_roots_the_first_that_has_a_tool_counts(tmp_path):
    for root, names in {"a": "xy", "b": "yz"}.items():
        for name in names:
            path = tmp_path / root / f"mcptools/c/{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"def run():\n    'Does {root}.'\n")
    roots = [tmp_path / name for name in ("missing", "a", "b")]
    found, seen = [], []
    report = scan(roots, found=found.append, progress=seen.append)
    paths = ["1/mcptools/c/x.py", "1/mcptools/c/y.py", "2/mcptools/c/z.py"]
    assert [record.path for record in report.records] == paths
    assert sorted(record.path for record in found) == paths
    assert seen == [1, 2, 3, 4]
    (issue,) = report.issues
    assert (issue.path, issue.reason) == ("2/mcptools/c/y.py", "duplicate_id")
    assert f"{tmp_path.as_posix()}/a/mcptools/c/y.py, which has the same id" in issue.detail
    hashes = {record.path: record.file_hash for record in report.records}
    assert scan(roots, hashes=hashes).unchanged == tuple(paths)
    assert [record.path for record in scan(roots[1:2]).records] == [path[2:] for path in paths[:2]]


def test_tools_of_a_root_that_cannot_be_listed_stay_as_they_are_known(tmp_path, monkeypatch):
    for root in "ab":
        path = tmp_path / root / "mcptools/c/x.py"
        path.parent.mkdir(parents=True)
        path.write_text(GOOD)
    listed = os.scandir

    def refuse(folder):
        if str(folder).startswith(str(tmp_path / "a")):
            raise PermissionError(13, "denied")
        return listed(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    report = scan([tmp_path / "a", tmp_path / "b"], known={"0/mcptools/c/x.py": None})
    assert (report.records, report.unchanged) == ((), ("0/mcptools/c/x.py",))
    assert reasons(report) == {"0/": "unreadable", "1/mcptools/c/x.py": "duplicate_id"}
