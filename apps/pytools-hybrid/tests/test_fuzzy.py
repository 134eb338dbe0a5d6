"""The mode that finds tools by misspelt words and parts of words, without a model."""

import asyncio

import pytest
from pytools_hybrid import SearchMode, ToolSearch
from pytools_hybrid.search import Scope
from toolindex import ToolFilter

NAMES = {
    "mcptools/github/create_issue.py": "Open a new issue in a repository.",
    "mcptools/github/create_pull_request.py": "Propose the changes of a branch.",
    "mcptools/github/list_repositories.py": "List what an account owns.",
    "mcptools/calendar/create_event.py": "Put an appointment into the calendar.",
    "mcptools/git/pullrequest.py": "Nothing that the name does not say.",
    "gentools/text/count_words/api.py": "Count the words of a text.",
}
ISSUE = "mcptools:github:create_issue"


@pytest.fixture
def fuzzy(settings, tmp_path, write_tool):
    """Search some tools in fuzzy mode, without a model unless one is given."""
    for path, description in NAMES.items():
        write_tool(path, description)

    def ask(*queries, model="none", **options):
        async def main():
            made = settings(embedding_model=model)
            async with ToolSearch(tmp_path / "tools", made, refresh=False) as tools:
                await tools.index.update(vectors=False)
                assert not tools.uses_vectors(SearchMode.FUZZY)
                asked = {"mode": SearchMode.FUZZY, **options}
                return [await tools.search(query, **asked) for query in queries]

        return asyncio.run(main())

    return ask


def ids(response):
    return [str(found.entry.id) for found in response.tools]


@pytest.mark.parametrize("name", ["create_issue", "createIssue", "github create issue", ISSUE])
def test_a_named_tool_comes_first_with_full_confidence(fuzzy, name):
    (response,) = fuzzy(name)
    assert ids(response)[0] == ISSUE
    assert response.tools[0].confidence == 0.99


def test_scores_and_confidences_are_in_0_to_1_and_scores_decrease(fuzzy):
    for response in fuzzy("creat isu", "repo", "evnt of the calender", "xyzzyq", ""):
        scores = [found.score for found in response.tools]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= found.confidence <= 1 for found in response.tools)
        assert all(0 <= score <= 1 for score in scores)


def test_a_correct_word_has_more_confidence_than_a_misspelt_one(fuzzy):
    right, wrong = fuzzy("appointment", "apointmant")
    assert ids(right)[0] == ids(wrong)[0]
    assert right.tools[0].confidence > wrong.tools[0].confidence > 0


def test_only_the_fuzzy_channel_runs_and_no_channel_is_reported_lost(fuzzy):
    for model in ("none", "static"):
        (response,) = fuzzy("creat isu", model=model)
        assert response.channels == ("fuzzy",)
        assert response.lost == ()
        assert {it.retriever for found in response.tools for it in found.contributions} == {"fuzzy"}


def test_filters_apply_to_misspelt_words(fuzzy):
    (response,) = fuzzy("creat", where=ToolFilter(categories=["calendar"]))
    assert ids(response) == ["mcptools:calendar:create_event"]
    (response,) = fuzzy("creat wrds", scope=Scope.GENTOOLS)
    assert ids(response) == ["gentools:text:count_words"]
