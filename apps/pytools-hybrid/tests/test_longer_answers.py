"""A longer answer begins with the shorter one, whatever the mode, the filter and the threshold."""

import asyncio

import pytest
from pytools_hybrid import SearchMode, ToolFilter, ToolSearch

VERBS = ("create", "list", "update", "delete", "search", "export", "archive")
NOUNS = ("invoice", "ticket", "contact", "backup", "report")
REQUESTS = (
    "create an invoice",
    "list all tickets and delete the oldest backup",
    "delete ticket",
    "export_report",
    "archve a contcat",
    "search",
    "send the report by email, then put it into the calendar",
    "备份联系人",
    "what is new",
)
LIMITS = (1, 3, 5, 16, 30, 50)


@pytest.fixture
def crowd(toolbox, write_tool):
    """The tools of a team, three accounts of one server, and a server with deprecated tools."""
    for verb in VERBS:
        for noun in NOUNS:
            text = f"{verb.title()} one {noun} or several of them in the office system."
            for account in ("work", "home", "club"):
                write_tool(f"mcptools/office-{account}/{verb}_{noun}.py", text)
            write_tool(f"mcptools/old/{verb}_{noun}.py", f"{verb.title()} {noun}s. Deprecated.")
            write_tool(f"gentools/{noun}s/{verb}_{noun}/api.py", f"备份 {verb} any {noun} locally.")
    write_tool("mcptools/old/old_list_ticket.py", "List tickets. Deprecated.")
    return toolbox


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    ("fusion", "threshold", "where"),
    [
        ("linear", 0.0, None),
        ("rrf", 0.0, None),
        ("linear", 0.4, None),
        ("linear", 0.0, ToolFilter(source="mcptools")),
        ("linear", 0.2, ToolFilter(categories=("office-work", "old", "mail"))),
    ],
)
def test_a_longer_answer_begins_with_the_shorter(settings, crowd, mode, fusion, threshold, where):
    async def main():
        async with ToolSearch(crowd, settings(fusion=fusion), refresh=False) as search:
            await search.index.update()
            return {
                request: [
                    (
                        await search.search(
                            request, mode=mode, limit=limit, threshold=threshold, where=where
                        )
                    ).tools
                    for limit in LIMITS
                ]
                for request in REQUESTS
            }

    for request, answers in asyncio.run(main()).items():
        longest = [_seen(tool) for tool in answers[-1]]
        for limit, tools in zip(LIMITS, answers, strict=True):
            assert [_seen(tool) for tool in tools] == longest[:limit], (request, limit)
        scores = [tool.score for tool in answers[-1]]
        assert scores == sorted(scores, reverse=True), request


def _seen(tool):
    return tool.id, tool.duplicates, tool.also, round(tool.score, 4), round(tool.confidence, 4)
