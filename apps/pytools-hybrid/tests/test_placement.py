"""Where a tool ranks for a request, and why it does not rank higher."""

import asyncio

import pytest
from pytools_hybrid import ToolSearch, UnknownToolError
from pytools_hybrid.serve.operations import SearchArguments


def request(search, query, **how):
    return SearchArguments(query=query, **how).request(search.settings)


@pytest.fixture
def place(settings, toolbox):
    """Ask where a tool stands among those of a small team."""

    def ask(query, name, **how):
        async def main():
            async with ToolSearch(toolbox, settings()) as search:
                await search.index.update()
                return await search.explain_rank(request(search, query, **how), name)

        return asyncio.run(main())

    return ask


def test_the_first_tool_has_no_tool_ahead(place):
    placement = place("merge pdf documents", "merge_pdfs")

    assert (placement.rank, placement.ahead) == (1, None)
    assert placement.terms
    assert placement.lacking == ()


def test_a_shown_tool_is_compared_with_the_one_before_it(place):
    later = place("merge pdf documents", "rotate_pages", limit=5)
    ahead = place("merge pdf documents", later.ahead, limit=5)

    assert ahead.rank == later.rank - 1
    assert ahead.score >= later.score


def test_a_tool_that_is_not_shown_is_compared_with_the_last_shown_one(place):
    placement = place("merge pdf documents", "plan_route", limit=1)

    assert placement.ahead == "mcptools:pdf:merge_pdfs"
    assert {"merge", "pdf", "documents"} <= set(placement.lacking)
    text = "\n".join(placement.lines())
    assert "Query terms only merge_pdfs has: " in text
    assert f"number {placement.rank}" in text


def test_a_tool_without_any_word_of_the_request_is_reported_as_such(place):
    placement = place("zebra", "plan_route", mode="bm25")

    assert placement.rank is None
    assert placement.reasons[0] == "No query term occurs in this tool."
    assert "capabilities.toml" in placement.reasons[1]


def test_a_tool_that_the_filters_leave_out_is_reported_as_such(place):
    placement = place("merge pdfs", "merge_pdfs", categories=["mail"])

    assert placement.rank is None
    assert placement.reasons == ("the filters of this search leave it out",)


def test_too_little_confidence_is_reported(place):
    placement = place("merge pdf documents", "plan_route", threshold=0.9)

    assert any("at least 0.9 was asked for" in reason for reason in placement.reasons)


def test_a_tool_that_a_near_duplicate_represents_is_reported_as_such(place, write_tool):
    same = "Join several PDF documents into one file."
    write_tool("mcptools/pdf2/merge_pdfs.py", same)

    placements = [
        place("join pdf documents", f"mcptools:{it}:merge_pdfs") for it in ("pdf", "pdf2")
    ]

    (hidden,) = [it for it in placements if it.rank is None]
    assert "it is merged into result" in hidden.reasons[0]


def test_a_request_that_names_another_tool_is_reported(place):
    placement = place("merge_pull_request", "merge_pdfs", limit=1)

    assert any("the query names the other" in reason for reason in placement.reasons)


def test_an_unknown_tool_is_an_error(place):
    with pytest.raises(UnknownToolError):
        place("anything", "mcptools:nowhere:nothing")


def test_a_placement_converts_to_json_values(place):
    placement = place("merge pdf documents", "rotate_pages")

    told = placement.as_dict()
    assert told["id"] == "mcptools:pdf:rotate_pages"
    assert told["rank"] == placement.rank
    assert set(told["channels"]) <= {"bm25", "vector"}


@pytest.mark.parametrize("threshold", [0.0, 0.02])
def test_every_tools_place_equals_its_rank_in_a_search(settings, toolbox, threshold):
    async def main():
        async with ToolSearch(toolbox, settings()) as search:
            await search.index.update()
            asked = request(search, "send a message to a person", limit=7, threshold=threshold)
            found = [it.id for it in await search.search(asked)]
            places = {
                str(it.id): await search.explain_rank(asked, str(it.id))
                for it in await search.entries()
            }
        return found, {it.rank: id_ for id_, it in places.items() if it.rank}, places

    found, ids, places = asyncio.run(main())

    assert len(found) > 2
    assert [ids[place] for place in range(1, len(found) + 1)] == found
    assert all((it.rank or 99) > len(found) for id_, it in places.items() if id_ not in found)
    assert places[found[2]].ahead == found[1]
