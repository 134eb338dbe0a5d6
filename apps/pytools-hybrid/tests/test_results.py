"""Cached answers are never stale, and filters never shorten an answer needlessly."""

import asyncio
from dataclasses import replace

import pytest
from pytools_hybrid import Scope, SearchMode, ToolSearch
from pytools_hybrid.serve.operations import result_values
from toolindex import ArgumentError, ToolFilter

CREATE = "mcptools:github:create_issue"


def use(settings, root, job):
    """Run an async function on an open ToolSearch whose index is up to date."""

    async def main():
        async with ToolSearch(root, settings, refresh=False) as search:
            await search.index.update()
            return await job(search)

    return asyncio.run(main())


def ids(response):
    return [str(found.entry.id) for found in response.tools]


def test_equal_tools_of_other_servers_are_named_if_there_are_any(settings, root):
    async def job(search):
        return await search.search("report a bug", limit=1), search.roots

    response, roots = use(settings(), root, job)
    also = ("mcptools:work:create_issue",)
    both = replace(response, tools=(replace(response[0], also=also), response[0]))

    shown, without = result_values(both, roots)
    assert shown == without | {"also": list(also)}
    assert "also" not in without


def test_a_search_made_again_has_the_same_answer(settings, root):
    async def job(search):
        return [await search.search("report a bug") for _ in range(2)]

    first, again = use(settings(), root, job)

    assert first.tools == again.tools
    assert first.generation == again.generation
    assert first.search_id != again.search_id


def test_an_answer_is_current_after_every_change_of_the_files(settings, root, write_tool):
    async def job(search):
        answers = []
        for number in range(5):
            write_tool("mcptools/zoo/feed.py", f"Feed the penguins, as in version {number}.")
            await search.index.update(vectors=False)
            (found,) = (await search.search("penguins", mode=SearchMode.BM25)).tools
            answers.append(found.entry.description)
        (root / "mcptools/zoo/feed.py").unlink()
        await search.index.update(vectors=False)
        assert (await search.search("penguins", mode=SearchMode.BM25)).tools == ()
        return answers

    assert use(settings(), root, job) == [
        f"Feed the penguins, as in version {number}." for number in range(5)
    ]


def test_an_answer_is_current_after_a_change_by_another_process(settings, root, write_tool):
    async def job(search):
        assert (await search.search("penguins", mode=SearchMode.BM25)).tools == ()
        async with ToolSearch(root, settings(), refresh=False) as other:
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await other.index.update(vectors=False)
        return await search.search("penguins", mode=SearchMode.BM25)

    assert ids(use(settings(), root, job)) == ["mcptools:zoo:feed"]


def test_an_answer_is_current_as_vectors_arrive(settings, root):
    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update(vectors=False)
            by_words = await search.search("combine papers", mode=SearchMode.VECTOR)
            await search.index.update(files=False)
            return by_words, await search.search("combine papers", mode=SearchMode.VECTOR)

    by_words, by_meaning = asyncio.run(main())

    assert ids(by_words) == []
    assert ids(by_meaning)[0] == "mcptools:pdf:merge_pdfs"


def test_an_answer_filtered_by_outcomes_is_current_after_each_outcome(settings, root):
    proven = ToolFilter(min_success_rate=0.5, min_observations=1, unknown="exclude")

    async def job(search):
        answers = [ids(await search.search("report a bug", where=proven))]
        for success in (True, False, False):
            await search.record_outcome(CREATE, success=success)
            answers.append(ids(await search.search("report a bug", where=proven)))
        return answers

    assert use(settings(), root, job) == [[], [CREATE], [CREATE], []]


def test_a_usage_filter_says_how_many_tools_passed_for_lack_of_data(settings, root):
    async def job(search):
        for _ in range(5):
            await search.record_outcome(CREATE, success=True, latency_ms=30.0)
        return [
            await search.search("report a bug", where=where)
            for where in (
                ToolFilter(),
                ToolFilter(min_success_rate=0.5),
                ToolFilter(max_latency_ms=100),
                ToolFilter(max_latency_ms=100, unknown="exclude"),
                ToolFilter(max_latency_ms=10, unknown="exclude"),
            )
        ]

    unbound, good, fast, known, none = use(settings(), root, job)

    assert unbound.notes == known.notes == ()
    for response in (good, fast):
        (note,) = response.notes
        others = len(response) - 1
        assert others > 0
        assert note.startswith(f"{others} of {len(response)} results have too few recorded calls")
        assert note.endswith("unknown=exclude drops them.")
    assert ids(known) == [CREATE]
    assert ids(none) == []
    assert known[0].outcomes == (5, 0, 5, 30.0)


def test_cached_answers_to_different_requests_are_not_confused(settings, root):
    async def job(search):
        return [
            ids(await search.search("name of a file", mode=mode, scope=scope, limit=limit))
            for _ in range(2)
            for mode in SearchMode
            for scope in Scope
            for limit in (1, 4)
        ]

    answers = use(settings(), root, job)

    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    assert len({tuple(answer) for answer in answers}) > 4


@pytest.fixture
def crowd(root, write_tool):
    """Many tools that fit the same words, and few in one category."""
    for number in range(300):
        write_tool(f"mcptools/crowd/send_{number}.py", "Send a message to a person.")
    for number in range(5):
        write_tool(f"mcptools/few/send_{number}.py", "Send a message to a person by pigeon post.")
    return root


@pytest.mark.parametrize("mode", list(SearchMode))
def test_a_filter_that_five_tools_pass_returns_five(settings, crowd, mode):
    async def job(search):
        return await search.search(
            "send a message to a person", mode=mode, where=ToolFilter(categories=["few"]), limit=5
        )

    assert sorted(ids(use(settings(), crowd, job))) == [
        f"mcptools:few:send_{number}" for number in range(5)
    ]


def test_filters_combine(settings, root, write_tool):
    tagged = root / "mcptools/github/close_issue.py"
    tagged.write_text('__tags__ = ["danger"]\ndef run():\n    """Close an issue."""\n')

    async def job(search):
        async def found(**filters):
            scope = filters.pop("scope", Scope.ALL)
            response = await search.search("an issue", where=ToolFilter(**filters), scope=scope)
            return sorted(ids(response))

        close = "mcptools:github:close_issue"
        github = sorted([CREATE, close, "mcptools:github:list_commits"])
        assert await found(categories=["github"]) == github
        assert await found(tags=["danger"]) == [close]
        assert await found(path_prefix="mcptools/github") == github
        assert await found(path_prefix="mcptools/git") == []
        assert await found(categories=["github"], scope=Scope.GENTOOLS) == []
        assert await found(categories=["text", "github"], scope=Scope.GENTOOLS) == [
            "gentools:text:slugify"
        ]

    use(settings(), root, job)


def test_a_filter_that_nothing_passes_says_so(settings, root):
    async def job(search):
        return await search.search("report a bug", where=ToolFilter(categories=["absent"]))

    response = use(settings(), root, job)

    assert response.tools == ()
    assert "No tool matches the query and the filters." in response.notes[0]


def test_an_invalid_filter_is_refused():
    with pytest.raises(ArgumentError, match="categories"):
        ToolFilter(categories="github")
