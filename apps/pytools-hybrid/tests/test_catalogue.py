"""Lookups by name: categories, tools under other names, and what a policy hides."""

import asyncio

import pytest
from pytools_hybrid import AmbiguousToolError, SearchMode, ToolFilter, ToolSearch, UnknownToolError
from pytools_hybrid.search import nearest_first
from toolindex import ArgumentError

CREATE = "mcptools:github:create_issue"


def use(settings, root, job):
    """Run an async function on an open ToolSearch whose index is up to date."""

    async def main():
        async with ToolSearch(root, settings, refresh=False) as search:
            await search.index.update(vectors=False)
            return await job(search)

    return asyncio.run(main())


def found(settings, root, *names):
    async def job(search):
        return [str((await search.find(name)).id) for name in names]

    return use(settings, root, job)


def test_a_tool_is_found_by_its_names_in_other_systems(settings, root):
    names = (
        CREATE,
        "github__create_issue",
        "github.create_issue",
        "mcp__github__create_issue",
        "create_issue",
        "createIssue",
        "  create-issue ",
        "github/create_issue",
    )

    assert set(found(settings(), root, *names)) == {CREATE}


def test_an_ambiguous_name_is_refused_with_the_ids_of_its_tools(settings, root, write_tool):
    write_tool("mcptools/gitlab/create_issue.py", "Open an issue on GitLab.")

    with pytest.raises(AmbiguousToolError) as raised:
        found(settings(), root, "create_issue")

    assert raised.value.candidates == (CREATE, "mcptools:gitlab:create_issue")
    assert "give the id" in str(raised.value)
    assert found(settings(), root, "gitlab.create_issue") == ["mcptools:gitlab:create_issue"]


def test_an_exact_id_wins_over_similar_names(settings, root, write_tool):
    write_tool("mcptools/github/createIssue.py", "Open an issue, the old way.")

    assert found(settings(), root, CREATE) == [CREATE]
    with pytest.raises(AmbiguousToolError):
        found(settings(), root, "create issue")


@pytest.mark.parametrize("name", ["creat_isue", "github.creat_issue", "mcptools:github:issue"])
def test_an_unknown_name_is_refused_with_the_nearest_tools(settings, root, name):
    with pytest.raises(UnknownToolError) as raised:
        found(settings(), root, name)

    assert raised.value.candidates[0] == CREATE
    assert CREATE in str(raised.value)


@pytest.mark.parametrize(
    "name", ["", " ", ":", "::", "../../etc/passwd", "\x00", "mcp__", "x" * 100_000, "\ud800", "🙂"]
)
def test_any_string_that_does_not_name_a_tool_is_an_unknown_tool(settings, root, name):
    with pytest.raises(UnknownToolError) as raised:
        found(settings(), root, name)

    assert len(str(raised.value)) < 500
    assert str(raised.value).isprintable()


def test_hidden_tools_cannot_be_found_listed_or_described(settings, toolbox):
    policed = settings(include=("mcptools:*",), exclude=("*:github:*", "mcptools:pdf:merge_*"))

    async def job(search):
        await search.index.update(files=False)
        listed = {(it.category, it.tools) for it in await search.categories()}
        assert ("pdf", 2) in listed
        assert not {"github", "text", "money"} & {category for category, _ in listed}
        for mode in SearchMode:
            response = await search.search("merge pdf create issue on github", mode=mode, limit=50)
            seen = {str(tool.entry.id) for tool in response.tools}
            assert seen, mode
            assert not any(":github:" in id_ or "merge" in id_ for id_ in seen), mode
            assert all(id_.startswith("mcptools:") for id_ in seen), mode
        for name in (CREATE, "create_issue", "mcptools:pdf:merge_pdfs", "gentools:text:slugify"):
            with pytest.raises(UnknownToolError) as raised:
                await search.describe(name)
            assert not any(":github:" in id_ for id_ in raised.value.candidates)
            with pytest.raises(UnknownToolError):
                await search.record_outcome(name, success=True)

    use(policed, toolbox, job)


def test_a_filter_can_narrow_the_policy_but_not_widen_it(settings, root):
    policed = settings(exclude=("*:create_issue",))

    async def job(search):
        where = ToolFilter(include=["*:github:*"], exclude=["*:list_*"])
        assert (await search.search("issue commits", where=where)).tools == ()
        return await search.search("issue commits", where=ToolFilter(include=["*:github:*"]))

    (only,) = use(policed, root, job).tools
    assert str(only.entry.id) == "mcptools:github:list_commits"


def test_a_second_include_list_is_refused(settings, root):
    async def job(search):
        with pytest.raises(ArgumentError, match="include"):
            await search.search("x", where=ToolFilter(include=["*"]))

    use(settings(include=("*:github:*",)), root, job)


def test_only_the_beginning_of_a_long_name_is_compared():
    asked = "b" * 100 + "a" * 1_000_000

    assert nearest_first(asked, ["a" * 100, "b" * 100]) == ["b" * 100, "a" * 100]


def test_an_empty_answer_mentions_filters_only_if_some_were_set(settings, root):
    async def job(search):
        asked = [None, ToolFilter(categories=["pdf"])]
        return [(await search.search("zebra", mode="bm25", where=it)).notes[0] for it in asked]

    unfiltered, filtered = use(settings(exclude=("*:pdf:*",)), root, job)
    assert "filters" not in unfiltered
    assert "filters" in filtered


def test_a_policy_that_hides_everything_is_reported(settings, root):
    async def job(search):
        return (await search.search("report a bug", mode="bm25")).notes[-1]

    assert "the settings include and exclude hide all of them" in use(
        settings(exclude=("*",)), root, job
    )
    assert "No tool matches" in use(settings(include=("*:pdf:*",)), root, job)


def test_patterns_that_match_no_tool_are_listed(settings, root):
    policed = settings(include=("MCPTOOLS:*", "mcptools:*"), exclude=("*:gihub:*",))

    assert use(policed, root, lambda s: s.index.idle_patterns()) == [
        ("include", "MCPTOOLS:*"),
        ("exclude", "*:gihub:*"),
    ]
    assert use(settings(), root, lambda s: s.index.idle_patterns()) == []


def test_an_unknown_name_during_the_first_scan_says_to_try_again(settings, root):
    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            looking = asyncio.create_task(search.index.update(vectors=False))
            await asyncio.sleep(0)
            with pytest.raises(UnknownToolError, match="try again in a moment") as raised:
                await search.find("no_such_tool")
            assert raised.value.is_early
            await looking
            assert str((await search.find(CREATE)).id) == CREATE

    asyncio.run(main())


def test_an_unknown_name_says_to_try_again_even_if_the_first_scan_ends_meanwhile(
    settings, root, monkeypatch
):
    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            scanning = asyncio.create_task(search.index.update(vectors=False))
            await asyncio.sleep(0)
            read = search.index.read

            async def read_before_the_end(query):
                try:
                    return await read(query)
                finally:
                    await scanning

            monkeypatch.setattr(search.index, "read", read_before_the_end)
            with pytest.raises(UnknownToolError) as raised:
                await search.find("no_such_tool")
            assert raised.value.is_early

    asyncio.run(main())
