"""Other spellings of a word find the same tools: compatibility characters, acronyms, sessions."""

import asyncio

import pytest
from pytools_hybrid import SearchMode, ToolSearch

TOOLS = {
    "air/emission.py": "Report the CO₂ of a flight.",
    "post/parcel.py": "Weigh a parcel, in ㎏.",
    "land/plot_size.py": "Give the size of a plot in m².",
    "gate/register.py": "Register an ＡＰＩ at the gateway.",
    "firm/ledger.py": "Compute the proﬁt of a ﬁrm.",
    "site/list_URLs.py": "Return what a sitemap has.",
    "people/listIDs.py": "Return all known identities.",
    "shop/login.py": "Start a session with a password.",
    "bank/session.py": "Log in to the account with a token.",
    "forge/open_pr.py": "Propose a change of a branch.",
    "forge/merge_request_notes.py": "List the remarks of a merge request.",
    "goals/set_goal.py": "Set a personal goal for the year.",
    "cluster/list_pods.py": "List the pods of a Kubernetes cluster.",
    "scan/read_page.py": "Optical character recognition of a scanned page.",
}
FOUND = [
    *((text, "emission") for text in ("CO₂", "CO2", "co2 of my flight")),
    *((text, "plot_size") for text in ("m²", "m2")),
    *((text, "parcel") for text in ("㎏", "kg")),
    *((text, "register") for text in ("ＡＰＩ", "register an API", "API")),
    *((text, "ledger") for text in ("proﬁt", "profit", "profits of a firm")),
    *((text, "list_URLs") for text in ("URLs", "list urls", "list URLs")),
    *((text, "listIDs") for text in ("IDs", "ids", "list IDs")),
    *((text, "login") for text in ("log in", "sign in", "log me into", "log me in", "LOGIN")),
    *((text, "session") for text in ("login", "sign in", "sign me in")),
    *((text, "open_pr") for text in ("PR", "open PRs", "pull request", "open a pull request")),
    *((text, "merge_request_notes") for text in ("MR", "notes of MRs", "merge requests")),
    ("k8s pods", "list_pods"),
    ("OCR", "read_page"),
]


@pytest.fixture
def tools(toolbox, write_tool):
    for path, text in TOOLS.items():
        write_tool(f"mcptools/{path}", text)
    return toolbox


def ask(settings, root, mode, texts):
    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update()
            return {text: await search.search(text, mode=mode) for text in texts}

    return asyncio.run(main())


@pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.BM25])
def test_a_tool_is_found_by_any_spelling(settings, tools, mode):
    answers = ask(settings, tools, mode, dict(FOUND))
    missed = {
        text: [hit.name for hit in answers[text]][:3]
        for text, name in FOUND
        if name not in [hit.name for hit in answers[text]][:3]
    }

    assert missed == {}


def test_descriptions_are_shown_as_they_were_written(settings, tools):
    (answer,) = ask(settings, tools, SearchMode.BM25, ["CO2"]).values()

    assert answer[0].description == TOOLS["air/emission.py"]
    assert answer[0].summary == TOOLS["air/emission.py"]


@pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.BM25])
@pytest.mark.parametrize("text", ["gcal", "add to gcal", "goa1", "gaol set", "xoal"])
def test_a_short_unknown_word_is_not_taken_for_another(settings, tools, mode, text):
    (answer,) = ask(settings, tools, mode, [text]).values()

    sure = {hit.name for hit in answer if hit.confidence >= 0.5}
    assert ("set_goal" in sure) == ("gaol" in text)


def test_mister_is_no_merge_request(settings, tools):
    (answer,) = ask(settings, tools, SearchMode.BM25, ["dear Mr Jones"]).values()

    assert "merge_request_notes" not in [hit.name for hit in answer]
