"""A tool that the request names comes first, even if its name is misspelt."""

import asyncio

import pytest
from pytools_hybrid import SearchMode, ToolSearch

ISSUE = "mcptools:github:create_issue"
SPELLINGS = [
    "create_issue",
    "createIssue",
    "create issue",
    "Create Issue",
    "create-issue",
    "CREATE_ISSUE",
    "  create_issue()  ",
    "github:create_issue",
    "github create issue",
    "github.create_issue",
    ISSUE,
]


def ids(response):
    return [str(found.entry.id) for found in response.tools]


def ask(settings, root, *requests):
    """Index a tree, and search it for some requests, given as keyword arguments."""

    async def main():
        async with ToolSearch(root, settings, refresh=False) as search:
            await search.index.update()
            return [await search.search(**request) for request in requests]

    return asyncio.run(main())


@pytest.mark.parametrize("mode", SearchMode)
def test_a_named_tool_is_first_in_every_spelling(settings, toolbox, mode):
    requests = [{"query": text, "mode": mode} for text in SPELLINGS]

    for text, response in zip(SPELLINGS, ask(settings(), toolbox, *requests), strict=True):
        assert ids(response)[0] == ISSUE, text
        assert response.tools[0].score == 0.99, text
        assert response.tools[0].explanation.pinned, text


@pytest.mark.parametrize("mode", SearchMode)
def test_a_tool_named_within_a_request_is_first(settings, toolbox, mode):
    (response,) = ask(
        settings(), toolbox, {"query": "use add_reaction to say that a song is good", "mode": mode}
    )

    assert ids(response)[0] == "mcptools:slack:add_reaction"


@pytest.mark.parametrize("mode", SearchMode)
def test_of_tools_with_one_name_the_best_fit_is_first(settings, toolbox, write_tool, mode):
    write_tool("mcptools/jira/create_issue.py", "Put a ticket on the board of a project.")
    write_tool("mcptools/linear/createIssue.py", "Write a task down for the next sprint.")
    texts = ["create_issue", "createIssue", "create issue"]
    plain = [{"query": text, "mode": mode} for text in texts]
    jira, linear, *answers = ask(
        settings(),
        toolbox,
        {"query": "create_issue: a ticket on the board of the project", "mode": mode},
        {"query": "create_issue: a task for the next sprint", "mode": mode},
        *plain,
    )

    assert ids(jira)[0] == "mcptools:jira:create_issue"
    assert ids(linear)[0] == "mcptools:linear:createIssue"
    named = {ISSUE, "mcptools:jira:create_issue", "mcptools:linear:createIssue"}
    for response in (jira, linear, *answers):
        assert set(ids(response)[:3]) == named
        merged = [found.explanation.merged for found in response.tools[:3]]
        assert merged == sorted(merged, reverse=True)


@pytest.mark.parametrize("mode", SearchMode)
def test_a_named_tool_that_the_filters_exclude_is_not_found(settings, toolbox, mode):
    (response,) = ask(
        settings(), toolbox, {"query": "create_issue", "mode": mode, "scope": "gentools"}
    )

    assert ISSUE not in ids(response)


@pytest.mark.parametrize("limit", [1, 2, 5, 50])
def test_a_named_tool_is_first_whatever_the_limit(settings, toolbox, limit):
    (response,) = ask(settings(), toolbox, {"query": "create_issue", "limit": limit})

    assert ids(response)[0] == ISSUE
    assert len(set(ids(response))) == len(ids(response)) <= limit


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("creat isue", ISSUE),
        ("crate isseu", ISSUE),
        ("tranlsate", "gentools:text:translate"),
        ("wether forcast", "mcptools:weather:get_forecast"),
        ("resze a pictrue", "gentools:image:resize_image"),
    ],
)
@pytest.mark.parametrize("model", ["none", "static"])
def test_a_misspelt_name_finds_the_tool_with_and_without_a_model(
    settings, toolbox, model, typed, meant
):
    (response,) = ask(settings(embedding_model=model), toolbox, {"query": typed})

    assert ids(response)[0] == meant


def test_a_misspelt_word_is_corrected_for_the_model_too(settings, toolbox):
    right, slip = ask(
        settings(),
        toolbox,
        {"query": "translate a poem", "mode": SearchMode.VECTOR},
        {"query": "transalte a poem", "mode": SearchMode.VECTOR},
    )

    assert ids(slip) == ids(right)
    scores = [found.score for found in right.tools]
    assert [found.score for found in slip.tools] == pytest.approx(scores, abs=1e-5)
