"""Links that lead out of the root, with `outside_links=False`."""

import contextlib
import os
import sys
from pathlib import Path

import pytest
import toolscan
from toolscan import Layout, find_tools, scan

INSIDE = "def run(a):\n    'Lies inside.'\n"
OUTSIDE = "def run(key='hunter2'):\n    'Lies outside.'\n"
T = "mcptools/demo/t.py"


@pytest.fixture
def root(tree):
    return tree({"root/mcptools/demo/own.py": INSIDE}) / "root"


@pytest.fixture
def outside(tree):
    files = ("t.py", "api.py", "t/api.py", "demo/t.py", "demo/t/api.py", "__init__.py")
    return tree({f"outside/{file}": OUTSIDE for file in files}) / "outside"


def link(place, target):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def ids(report):
    return [str(record.id) for record in report.records]


def reasons(report):
    return {issue.path: issue.reason for issue in report.issues}


def refusal(path, root):
    with pytest.raises(toolscan.ToolScanError) as caught:
        toolscan.read_tool(path, root, outside_links=False)
    return caught.value.issue.reason


@pytest.mark.parametrize(
    ("place", "target", "path"),
    [
        ("mcptools/demo/t.py", "t.py", "mcptools/demo/t.py"),
        ("mcptools/linked", ".", "mcptools/linked/t.py"),
        ("gentools", ".", "gentools/demo/t/api.py"),
        ("gentools/demo", "demo", "gentools/demo/t/api.py"),
        ("gentools/demo/t", "t", "gentools/demo/t/api.py"),
        ("gentools/demo/t/api.py", "api.py", "gentools/demo/t/api.py"),
    ],
)
def test_a_link_to_a_file_or_a_folder_outside_is_an_issue_and_nothing_below_it_is_read(
    root, outside, place, target, path
):
    link(root / place, outside / target)

    assert "Lies outside." in str(scan(root)), "it is followed by default"
    assert path in find_tools(root).values()
    assert toolscan.read_tool(path, root).summary == "Lies outside."

    for within in (None, place, path):
        report = scan(root, within=within, outside_links=False)
        assert reasons(report) == {place: "outside_root"}
        assert "Lies outside." not in str(report)
    assert "allow outside links" in report.issues[0].detail
    assert list(find_tools(root, outside_links=False).values()) == ["mcptools/demo/own.py"]
    assert refusal(path, root) == "outside_root"
    assert refusal(root / path, root) == "outside_root"


def test_a_file_outside_the_root_is_never_unchanged(root, outside):
    link(root / T, outside / "t.py")
    os.utime(outside / "t.py", (1, 1))
    known = {record.path: record.stamp for record in scan(root).records}

    report = scan(root, known=known, outside_links=False)

    assert T not in report.unchanged
    assert reasons(report) == {T: "outside_root"}


def test_a_category_is_not_described_by_a_file_outside_the_root(root, outside):
    link(root / "mcptools/demo/__init__.py", outside / "__init__.py")
    (outside / "__init__.py").write_text("'''Words from outside.'''")

    report = scan(root, outside_links=False)

    assert scan(root).categories == {"mcptools:demo": "Words from outside."}
    assert report.categories == {}
    assert reasons(report) == {"mcptools/demo/__init__.py": "outside_root"}
    assert ids(report) == ["mcptools:demo:own"]


def test_links_inside_the_root_are_followed_and_links_behind_them_are_checked(root, outside):
    link(root / "mcptools/alias", root / "hidden")
    link(root / "mcptools/demo/alias.py", "../../hidden/x.py")
    link(root / "hidden/twice.py", "x.py")
    link(root / "hidden/out.py", outside / "t.py")
    (root / "hidden/x.py").write_text(INSIDE)

    report = scan(root, outside_links=False)

    assert ids(report) == [
        "mcptools:alias:twice",
        "mcptools:alias:x",
        "mcptools:demo:alias",
        "mcptools:demo:own",
    ]
    assert reasons(report) == {"mcptools/alias/out.py": "outside_root"}
    assert [str(tool) for tool in find_tools(root, outside_links=False)] == ids(report)
    for record in report.records:
        assert toolscan.read_tool(record.path, root, outside_links=False).id == record.id


def test_a_folder_whose_name_begins_with_that_of_the_root_is_outside(root, tree):
    tree({"root-of-others/t.py": OUTSIDE})
    link(root / T, "../../../root-of-others/t.py")

    assert reasons(scan(root, outside_links=False)) == {T: "outside_root"}


def test_a_root_that_is_a_link_has_the_tools_of_its_target(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    link(root / T, root / "mcptools/demo/own.py")

    for within in (None, "mcptools", root / "mcptools", tmp_path / "alias/mcptools"):
        report = scan(tmp_path / "alias", within=within, outside_links=False)
        assert ids(report) == ["mcptools:demo:own", "mcptools:demo:t"]
    assert len(find_tools(tmp_path / "alias", outside_links=False)) == 2
    assert toolscan.read_tool(T, tmp_path / "alias", outside_links=False).path == T


@pytest.mark.skipif(
    sys.platform == "win32", reason="the root of a file system is not '/' on Windows"
)
def test_nothing_is_outside_the_file_system_root(root):
    pattern = f"{root.as_posix()[1:]}/mcptools/{{category}}/{{name}}.py"

    report = scan("/", layouts=[Layout("s", pattern)], outside_links=False)

    assert ids(report) == ["s:demo:own"]


def test_broken_links_are_reported_as_such_unless_they_point_outside(root, tmp_path):
    link(root / "mcptools/demo/gone.py", "nothing.py")
    link(root / "mcptools/demo/self.py", "self.py")
    link(root / "mcptools/demo/away.py", tmp_path / "nothing.py")

    report = scan(root, outside_links=False)

    assert reasons(report) == {
        "mcptools/demo/away.py": "outside_root",
        "mcptools/demo/gone.py": "broken_link",
        "mcptools/demo/self.py": "symlink_loop",
    }
    assert {issue.path: refusal(issue.path, root) for issue in report.issues} == reasons(report)


@pytest.fixture(params=["by descriptor", "by path"])
def opening(request, monkeypatch):
    """Call a function just before or after a file is opened."""
    if request.param == "by path":
        asking = os.readlink

        def readlink(path, **options):
            if os.fspath(path).startswith("/proc/"):
                raise FileNotFoundError(path)
            return asking(path, **options)

        monkeypatch.setattr(os, "readlink", readlink)
    elif not Path("/proc/self/fd").exists():
        pytest.skip("this system does not report the path of an open file")

    @contextlib.contextmanager
    def during(file, *, before=lambda: None, after=lambda: None):
        opening = os.open

        def swapping(path, *arguments, **options):
            if os.fspath(path) != str(file):
                return opening(path, *arguments, **options)
            before()
            try:
                return opening(path, *arguments, **options)
            finally:
                after()

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", swapping)
            yield

    return during


def test_a_file_replaced_by_a_link_after_its_check_is_not_read(root, outside, opening):
    file = root / "mcptools/demo/own.py"

    def exchange():
        file.unlink()
        file.symlink_to(outside / "t.py")

    def put_back():
        file.unlink()
        file.write_text(INSIDE)

    for after in (lambda: None, put_back):
        with opening(file, before=exchange, after=after):
            report = scan(root, outside_links=False)
        assert "Lies outside." not in str(report)
        assert set(reasons(report).values()) <= {"outside_root", "vanished"}
        put_back()
        with opening(file, before=exchange, after=after):
            assert refusal(file, root) in {"outside_root", "vanished"}
        put_back()
        assert ids(scan(root, outside_links=False)) == ["mcptools:demo:own"]


def test_a_folder_replaced_by_a_link_after_its_listing_is_not_read(root, outside, opening):
    folder = root / "mcptools/demo"

    def exchange():
        folder.rename(root / "away")
        folder.symlink_to(outside / "demo")

    (folder / "t.py").write_text(INSIDE)
    (folder / "own.py").unlink()
    with opening(folder / "t.py", before=exchange):
        report = scan(root, outside_links=False)

    assert reasons(report) == {"mcptools/demo/t.py": "outside_root"}
    assert "Lies outside." not in str(report)


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(),
    reason="this system does not report the path of an open file",
)
def test_a_file_replaced_while_it_is_read_still_counts_as_inside(root, monkeypatch):
    file, draft = root / "mcptools/demo/own.py", root / "draft"
    draft.write_text(INSIDE)
    opening = os.open

    def replacing(path, *arguments, **options):
        fd = opening(path, *arguments, **options)
        if os.fspath(path) == str(file):
            draft.replace(file)
        return fd

    monkeypatch.setattr(os, "open", replacing)

    assert ids(scan(root, outside_links=False)) == ["mcptools:demo:own"]


def test_a_linked_root_that_changes_during_a_scan_is_read_at_its_old_target(
    root, outside, tmp_path, opening
):
    alias = tmp_path / "alias"
    alias.symlink_to(root)

    def turn():
        alias.unlink()
        alias.symlink_to(outside)

    (root / "mcptools/demo/__init__.py").write_text("'''Ours.'''")
    with opening(root / "mcptools/demo/__init__.py", before=turn):
        report = scan(alias, outside_links=False)

    assert alias.readlink() == outside
    assert ids(report) == ["mcptools:demo:own"]
    assert report.issues == ()
