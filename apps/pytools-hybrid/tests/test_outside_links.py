"""Symbolic links to tools outside the root."""

import asyncio
from pathlib import PurePosixPath

import pytest
from pytools_hybrid import DetailLevel, ToolSearch
from pytools_hybrid.index import SQLiteStore, TreeSync
from pytools_hybrid.serve.mcp import create_server

OWN = "mcptools:github:create_issue"
LINKS = {
    "a file": ("mcptools/github/linked.py", "linked.py", "mcptools:github:linked"),
    "a folder": ("mcptools/far", ".", "mcptools:far:linked"),
}


@pytest.fixture
def store(tmp_path):
    with SQLiteStore(tmp_path / "index.db") as store:
        yield store


@pytest.fixture(params=LINKS)
def linked(request, root, tmp_path):
    """Link to a tool outside; return the link's path and the id that the tool would have."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "linked.py").write_text("def run():\n    '''Lies outside.'''\n")
    place, target, tool_id = LINKS[request.param]
    (root / place).symlink_to(outside / target)
    return place, tool_id


def ids(store):
    with store.reading() as reader:
        return {row[0] for row in reader.connection.execute("SELECT id FROM entries")}


def test_outside_tools_are_left_out_with_a_reason(store, root, linked):
    place, tool_id = linked

    report = TreeSync(store, root).scan()

    assert tool_id not in ids(store)
    assert OWN in ids(store)
    (issue,) = report.issues
    assert (issue.path, issue.reason) == (place, "outside_root")


@pytest.mark.parametrize("looks_at", ["all", "the link"])
def test_outside_tools_are_removed_once_they_are_no_longer_allowed(store, root, linked, looks_at):
    place, tool_id = linked
    TreeSync(store, root, outside_links=True).scan()

    report = TreeSync(store, root).scan(None if looks_at == "all" else [PurePosixPath(place)])

    assert (report.added, report.updated, report.removed) == (0, 0, 1)
    assert tool_id not in ids(store)
    assert OWN in ids(store)


def test_outside_tools_are_added_once_they_are_allowed(store, root, linked):
    TreeSync(store, root).scan()

    report = TreeSync(store, root, outside_links=True).scan()

    assert (report.added, report.updated, report.removed) == (1, 0, 0)
    assert linked[1] in ids(store)


@pytest.mark.parametrize(("value", "lets_in"), [(None, False), ("true", True)])
def test_the_setting_applies_to_searches_descriptions_and_browsing(
    settings, root, linked, monkeypatch, value, lets_in
):
    if value is not None:
        monkeypatch.setenv("PYTOOLS_OUTSIDE_LINKS", value)
    chosen = settings(embedding_model="none", tools="basic")
    tool_id = linked[1]

    async def main():
        async with ToolSearch(root, chosen, refresh=False) as search:
            await search.index.update(vectors=False)
            found = await search.search("lies outside")
            assert (tool_id in {str(each.entry.id) for each in found.tools}) == lets_in
            if lets_in:
                assert (await search.describe(tool_id, DetailLevel.FULL)).stub
        server = create_server(None, None, settings=chosen, root=root)
        category = tool_id.split(":")[1]
        listed = await server.call_tool("list_tools", {"categories": category})
        assert ("linked.py" in str(listed)) == lets_in

    asyncio.run(main())
