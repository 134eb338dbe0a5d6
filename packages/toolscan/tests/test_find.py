"""Listing tools by file name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolscan import ToolScanError, find_tools, scan

from .conftest import PATIENCE

GOOD = "def run(a):\n    'Does it.'\n"
# Path parts that have a meaning in a layout, and some that only look similar.
PARTS = st.sampled_from(
    ["mcptools", "gentools", "a", "b", "_p", "x:y", "api.py", "t.py", ".py", "__init__.py", "a.txt"]
)


def found(root, **options):
    return {str(tool): path for tool, path in find_tools(root, **options).items()}


def test_paths_are_found_in_the_order_of_their_ids(tree):
    root = tree(
        {
            "mcptools/b/x.py": GOOD,
            "mcptools/a/y.py": GOOD,
            "gentools/c/tool/api.py": GOOD,
            "gentools/c/tool/impl.py": GOOD,
            "mcptools/readme.py": GOOD,
            "elsewhere/b/x.py": GOOD,
        }
    )

    assert list(found(root).items()) == [
        ("gentools:c:tool", "gentools/c/tool/api.py"),
        ("mcptools:a:y", "mcptools/a/y.py"),
        ("mcptools:b:x", "mcptools/b/x.py"),
    ]


def test_no_file_is_opened(tree):
    root = tree({"mcptools/a/broken.py": "def run(", "mcptools/a/binary.py": b"\0\xff"})
    # An audit hook cannot be removed, so it is installed in a separate process.
    program = (
        "import sys\n"
        "from toolscan import find_tools\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, of: event == 'open' and opened.append(str(of[0])))\n"
        "ids = list(map(str, find_tools(sys.argv[1])))\n"
        "print(ids, opened)"
    )

    result = subprocess.run(
        [sys.executable, "-c", program, str(root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )

    assert result.stdout == "['mcptools:a:binary', 'mcptools:a:broken'] []\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux allows any bytes in names")
def test_a_name_that_is_not_utf8_is_left_out(tree):
    root = tree({"mcptools/b/x.py": GOOD})
    Path(os.fsdecode(os.fsencode(root) + b"/mcptools/b/\xff.py")).write_text(GOOD)

    assert list(found(root)) == ["mcptools:b:x"]


def test_only_the_requested_folders_are_listed(tree):
    root = tree({"mcptools/a/x.py": GOOD, "mcptools/b/x.py": GOOD, "gentools/a/t/api.py": GOOD})

    assert list(found(root, within="mcptools/a")) == ["mcptools:a:x"]
    assert list(found(root, within=["gentools", "mcptools/b/x.py"])) == [
        "gentools:a:t",
        "mcptools:b:x",
    ]
    assert found(root, within="../..") == found(root)
    assert found(root, within="../elsewhere") == {}


def test_a_root_that_cannot_be_listed_is_an_error_and_not_an_empty_tree(tree, monkeypatch):
    root = tree({"mcptools/a/x.py": GOOD})
    refuse_to_list(root, monkeypatch)

    with pytest.raises(ToolScanError) as error:
        find_tools(root)

    assert error.value.issue.reason == "unreadable"


def test_a_folder_that_cannot_be_listed_loses_only_its_own_tools(tree, monkeypatch):
    root = tree({"mcptools/a/x.py": GOOD, "mcptools/b/x.py": GOOD})
    refuse_to_list(root / "mcptools" / "a", monkeypatch)

    assert list(found(root)) == ["mcptools:b:x"]


@given(st.dictionaries(st.lists(PARTS, min_size=1, max_size=4).map("/".join), st.just(GOOD)))
def test_it_lists_every_tool_that_a_scan_reads(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("tree")
    for path, content in files.items():
        target = root / path
        # One path may be a folder in another.
        if not any(part.is_file() for part in target.parents) and not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")

    assert found(root) == {str(record.id): record.path for record in scan(root).records}


def refuse_to_list(folder, monkeypatch):
    """Make the system refuse access to a folder, even for root."""
    listing = os.scandir

    def scandir(path="."):
        if os.fspath(path).rstrip("/") == str(folder):
            raise PermissionError(13, "Permission denied", str(folder))
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
