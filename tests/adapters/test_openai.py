"""OpenAI's client-executed tool search: what its SDK sends, and our answers."""

import json

import pytest

openai = pytest.importorskip("openai")

from openai.types.responses import (  # noqa: E402
    FunctionToolParam,
    ResponseToolSearchCall,
    ToolSearchToolParam,
)
from openai.types.responses.response_tool_search_output_item_param_param import (  # noqa: E402
    ResponseToolSearchOutputItemParamParam,
)
from pydantic import TypeAdapter  # noqa: E402
from pytools_hybrid import ToolSearch, load_tool, result_text  # noqa: E402
from pytools_hybrid.agents.adapters.openai import (  # noqa: E402
    ClientToolSearch,
    function_tool,
    search_output,
    search_query,
    search_tool,
)

pytestmark = pytest.mark.anyio


def response(*output):
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "gpt-test",
        "status": "completed",
        "output": list(output),
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }


def search_call(query):
    return {
        "type": "tool_search_call",
        "id": "ts_1",
        "call_id": "call_1",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": query},
    }


def function_call(name, **arguments):
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_2",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


@pytest.fixture
def search(definitions):
    return ClientToolSearch(
        [
            {
                "type": "function",
                "name": name,
                "description": description,
                "parameters": schema,
                "strict": False,
            }
            for name, (description, schema) in definitions.items()
        ],
        limit=2,
    )


async def test_a_conversation_goes_from_the_search_to_the_function(search, provider):
    answers = (
        response(search_call("combine papers")),
        response(function_call("merge_pdfs", paths="a.pdf")),
    )
    with provider(*answers) as (url, requests):
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            items = [{"role": "user", "content": "Put my papers together."}]
            first = await client.responses.create(
                model="gpt-test", input=items, tools=[search_tool()]
            )
            items += [*first.output, await search.output(first.output[0])]
            second = await client.responses.create(
                model="gpt-test", input=items, tools=[search_tool()]
            )

    assert second.output[0].name == "merge_pdfs"
    assert requests[0]["tools"] == [search_tool()]
    _, call, answer = requests[1]["input"]
    assert call["type"] == "tool_search_call"
    assert answer["type"] == "tool_search_output"
    assert answer["call_id"] == "call_1"
    assert answer["execution"] == "client"
    assert answer["tools"][0]["name"] == "merge_pdfs"
    assert all(tool["defer_loading"] for tool in answer["tools"])
    assert len(answer["tools"]) == 2


async def test_the_functions_can_come_from_a_tree(examples, provider, forget_modules):
    answers = (
        response(search_call("convert miles to kilometres")),
        response(function_call("units__convert_units", value=1, from_unit="mi", to_unit="km")),
    )
    with provider(*answers) as (url, requests):
        async with (
            openai.AsyncOpenAI(base_url=url, api_key="none") as client,
            ToolSearch(examples) as tools,
        ):
            first = await client.responses.create(
                model="gpt-test", input="How far is a mile?", tools=[search_tool()]
            )
            call = first.output[0]
            functions = {
                function.name: function
                for function in map(load_tool, await tools.search(search_query(call), limit=1))
            }
            answer = search_output(call, map(function_tool, functions.values()))
            second = await client.responses.create(
                model="gpt-test", input=[*first.output, answer], tools=[search_tool()]
            )
            wanted = second.output[0]
            result = await functions[wanted.name].call(json.loads(wanted.arguments))

    assert result_text(result).startswith("1.609")
    assert requests[1]["input"][1]["tools"][0]["name"] == "units__convert_units"


async def test_the_tool_and_the_answer_have_the_sdk_s_types(search):
    call = ResponseToolSearchCall(**search_call("report a bug"))

    answer = await search.output(call)

    TypeAdapter(ToolSearchToolParam).validate_python(search_tool())
    TypeAdapter(ResponseToolSearchOutputItemParamParam).validate_python(answer)
    for tool in answer["tools"]:
        TypeAdapter(FunctionToolParam).validate_python(tool)


async def test_an_empty_result_is_an_empty_list(search):
    call = ResponseToolSearchCall(**search_call(""))

    assert (await search.output(call))["tools"] == []
