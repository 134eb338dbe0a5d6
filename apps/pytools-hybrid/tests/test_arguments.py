"""The arguments that agents can pass to a tool over MCP, and the errors for invalid ones."""

from typing import Annotated

import pytest
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from pytools_hybrid.serve.operations import Arguments
from pytools_hybrid.serve.tools import read_arguments


class Asked(Arguments):
    query: str
    limit: int = 5
    categories: list[str] | None = None
    search_id: Annotated[str | None, Field(max_length=200)] = None


class Nothing(Arguments):
    pass


def refusal(model=Asked, **given):
    with pytest.raises(ToolError) as refused:
        read_arguments(model, given)
    return str(refused.value)


@pytest.mark.parametrize("given", ["pdf", '["pdf"]', ["pdf"]])
def test_a_single_string_is_accepted_as_a_list(given):
    assert read_arguments(Asked, {"query": "a", "categories": given}).categories == ["pdf"]


@pytest.mark.parametrize("given", ["[" * 100_000, '{"a":' * 100_000, "[1" + "1" * 5_000 + "]"])
def test_a_list_that_cannot_be_parsed_counts_as_a_single_string(given):
    assert refusal(query="a", categories=given).startswith("categories has a text of more than ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"query": "a" * 100_001}, "query has a text of more than 100000 characters; cut it."),
        ({"search_id": "a" * 201}, "search_id has a text of more than 200 characters; cut it."),
        ({"categories": ["a" * 201]}, "categories has a text of more than 200 characters; cut it."),
        ({"categories": ["pdf"] * 101}, "categories is a list of more than 100; give fewer."),
        ({"categories": "[" + '"pdf",' * 100 + '"pdf"]'}, "more than 100"),
    ],
)
def test_arguments_that_are_too_long_are_refused(given, says):
    assert says in refusal(**{"query": "a"} | given)


def test_arguments_of_the_maximum_length_are_accepted():
    given = {"query": "a" * 100_000, "categories": ["a" * 200] * 100}

    assert read_arguments(Asked, given).model_dump(exclude_unset=True) == given


def test_many_invalid_arguments_are_reported_in_one_short_line():
    many = {str(number): 1 for number in range(20_000)}

    said = refusal(query="a", categories=[1] * 200_000, **many)

    assert said.startswith("categories is a list of more than 100; give fewer. There is no")
    assert len(said) < 300


def test_a_name_with_a_lone_surrogate_is_an_unknown_argument():
    assert "There is no argument" in refusal(**{"query": "a", "\ud83d": 1})


def test_an_argument_of_a_tool_without_arguments_is_refused():
    assert refusal(Nothing, x=1) == "There is no argument 'x'; there are none."


def test_each_invalid_argument_is_reported_once():
    said = refusal(query="a", categories=[1, 2], limit="many")

    assert said == (
        "limit is 'many'; give a whole number. categories is [1, 2]; give a list of texts."
    )
