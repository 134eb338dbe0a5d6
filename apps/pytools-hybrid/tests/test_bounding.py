"""An index limited to a number of tools keeps the first by id, and reports the rest."""

import asyncio
from pathlib import PurePosixPath

import pytest
from pytools_hybrid import ToolSearch
from pytools_hybrid.index import SQLiteStore, refresh
from toolscan import Reason

FIRST = ["gentools:text:slugify", "mcptools:github:create_issue"]
LAST = ["mcptools:github:list_commits", "mcptools:pdf:merge_pdfs"]


@pytest.fixture
def store(tmp_path):
    with SQLiteStore(tmp_path / "index.db") as store:
        yield store


def ids_in(store):
    return sorted(store.stored(reader_version="any").entries)


def test_the_first_tools_by_id_are_kept_and_others_are_left_out_with_a_reason(store, root):
    report = refresh(store, root, max_tools=2)
    assert ids_in(store) == FIRST
    assert [issue.path for issue in report.issues] == [
        "mcptools/github/list_commits.py",
        "mcptools/pdf/merge_pdfs.py",
    ]
    for issue in report.issues:
        assert issue.reason is Reason.OVER_LIMIT
        assert "max_tools (PYTOOLS_MAX_TOOLS)" in issue.detail
        assert "the first by id are kept" in issue.detail


def test_a_tree_with_exactly_the_limit_keeps_all_tools(store, root):
    assert refresh(store, root, max_tools=4).issues == ()
    assert ids_in(store) == FIRST + LAST


def test_setting_the_limit_later_removes_tools_and_lifting_it_adds_them(store, root):
    refresh(store, root)
    assert refresh(store, root, max_tools=2).removed == 2
    assert ids_in(store) == FIRST
    assert refresh(store, root).added == 2


def test_a_new_tool_displaces_the_last_and_a_removed_one_makes_room(store, root, write_tool):
    refresh(store, root, max_tools=2)
    write_tool("gentools/art/draw/api.py", "Draw a picture.")
    within = [PurePosixPath("gentools/art/draw")]
    refresh(store, root, within, max_tools=2)
    assert ids_in(store) == ["gentools:art:draw", FIRST[0]]
    (root / "gentools/art/draw/api.py").unlink()
    refresh(store, root, within, max_tools=2)
    assert ids_in(store) == FIRST


def test_the_limit_applies_to_all_trees_together(store, root, tmp_path):
    own = tmp_path / "own" / "mcptools" / "github"
    own.mkdir(parents=True)
    for name in ("create_issue", "list_commits"):
        (own / f"{name}.py").write_text("def run():\n    '''Mine.'''\n", encoding="utf-8")
    report = refresh(store, [tmp_path / "own", root], max_tools=2)
    held = store.stored(reader_version="any").entries
    assert {entry.id: entry.path for entry in held.values()} == {
        FIRST[0]: "1/gentools/text/slugify/api.py",
        FIRST[1]: "0/mcptools/github/create_issue.py",
    }
    reasons = {issue.path: issue.reason for issue in report.issues}
    assert reasons["0/mcptools/github/list_commits.py"] is Reason.OVER_LIMIT
    assert reasons["1/mcptools/pdf/merge_pdfs.py"] is Reason.OVER_LIMIT
    assert reasons["1/mcptools/github/create_issue.py"] is Reason.DUPLICATE_ID


def test_answers_say_that_tools_are_left_out(settings, root):
    async def notes(**values):
        async with ToolSearch(root, settings(embedding_model="none", **values)) as tools:
            return (await tools.search("open an issue")).notes

    expected = (
        "2 tools are left out, beyond the 2 that max_tools (PYTOOLS_MAX_TOOLS) allows: the first "
        "by id are kept"
    )
    assert expected in asyncio.run(notes(max_tools=2))
    assert not any("max_tools" in note for note in asyncio.run(notes(max_tools=4)))
