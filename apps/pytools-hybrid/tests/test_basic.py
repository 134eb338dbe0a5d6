"""Browsing by category."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytools_hybrid import RootUnreadableError
from pytools_hybrid.serve.browse import BySource, ToolBrowser
from toolindex import ToolFilter

from .conftest import PATIENCE

FILES = (
    "mcptools/github/create_issue.py",
    "mcptools/github/list_commits.py",
    "mcptools/github/_shared.py",
    "mcptools/github/__init__.py",
    "mcptools/text/count_words.py",
    "mcptools/_private/hidden.py",
    "gentools/text/slugify/api.py",
    "gentools/text/slugify/impl.py",
    "gentools/money/_draft/api.py",
)


@pytest.fixture
def root(tmp_path):
    for file in FILES:
        path = tmp_path / "tools" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not even Python: {", encoding="utf-8")
    return tmp_path / "tools"


@pytest.fixture
def browser(root):
    return ToolBrowser(root, ToolFilter())


def test_tools_are_listed_as_source_paths_below_the_given_root(root, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    listed = ToolBrowser(Path("tools"), ToolFilter()).tools(["text", "github"])

    assert list(listed.items()) == [
        (
            "text",
            BySource(
                gentools=["tools/gentools/text/slugify/api.py"],
                mcptools=["tools/mcptools/text/count_words.py"],
            ),
        ),
        (
            "github",
            BySource(
                gentools=[],
                mcptools=[
                    "tools/mcptools/github/create_issue.py",
                    "tools/mcptools/github/list_commits.py",
                ],
            ),
        ),
    ]


@pytest.mark.parametrize(
    "name", ["nosuch", "", "..", "../..", "/", "text/slugify", "_private", "*", "GitHub", "a\0b"]
)
def test_an_unknown_category_has_no_tools(browser, name):
    assert browser.tools([name]) == {name: BySource(gentools=[], mcptools=[])}


def test_category_names_cannot_escape_the_root(root):
    beside = root.parent / "mcptools" / "secret"
    beside.mkdir(parents=True)
    (beside / "x.py").write_text("", encoding="utf-8")

    listed = ToolBrowser(root, ToolFilter()).tools(["../../mcptools/secret", str(beside), "secret"])

    assert all(found == BySource(gentools=[], mcptools=[]) for found in listed.values())


def test_links_out_of_the_root_are_only_followed_if_allowed(root):
    beside = root.parent / "beside"
    beside.mkdir()
    (beside / "x.py").write_text("", encoding="utf-8")
    (root / "mcptools" / "linked").symlink_to(beside)
    (root / "mcptools" / "text" / "alias.py").symlink_to(root / FILES[0])

    assert ToolBrowser(root, ToolFilter()).categories().mcptools == ["github", "text"]
    listed = ToolBrowser(root, ToolFilter()).tools("text")["text"].mcptools
    assert [Path(path).stem for path in listed] == ["alias", "count_words"]
    with_links = ToolBrowser(root, ToolFilter(), outside_links=True)
    assert with_links.categories().mcptools == ["github", "linked", "text"]


def test_tools_outside_the_policy_and_their_empty_categories_are_not_listed(root):
    policy = ToolFilter(include=["mcptools:*"], exclude=["*:list_*", "*:text:*"])
    browser = ToolBrowser(root, policy)

    assert browser.categories() == BySource(gentools=[], mcptools=["github"])
    assert browser.tools(["github", "text"]) == {
        "github": BySource(
            gentools=[], mcptools=[(root / "mcptools/github/create_issue.py").as_posix()]
        ),
        "text": BySource(gentools=[], mcptools=[]),
    }


def test_a_new_file_is_listed_by_the_next_call(root, browser):
    (root / "mcptools/github/later.py").write_text("", encoding="utf-8")

    assert browser.tools("github")["github"].mcptools[1].endswith("later.py")


def test_a_tree_that_does_not_exist_yet_has_no_tools(tmp_path):
    browser = ToolBrowser(tmp_path / "none", ToolFilter())

    assert browser.categories() == BySource(gentools=[], mcptools=[])
    assert browser.tools("github") == {"github": BySource(gentools=[], mcptools=[])}


def test_a_tree_that_cannot_be_listed_is_an_error(root, browser, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", os.fspath(path))

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(RootUnreadableError, match="Permission denied"):
        browser.categories()


def test_browsing_imports_neither_mcp_nor_the_index():
    program = (
        "import sys, pytools_hybrid.serve.browse\n"
        "print(*{'mcp', 'apsw', 'numpy', 'pydantic_ai', 'typer'} & sys.modules.keys())"
    )

    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )

    assert result.stdout.strip() == ""
