"""Claude's client-side tool search: what its SDK sends, and our answers."""

import pytest

anthropic = pytest.importorskip("anthropic")

from pydantic import TypeAdapter  # noqa: E402
from pytools_hybrid import ToolSearch, load_tool  # noqa: E402
from pytools_hybrid.agents.adapters.claude import ClientToolSearch, tool_param  # noqa: E402

pytestmark = pytest.mark.anyio


def message(*content, stop_reason):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def tool_use(name, **arguments):
    return {"type": "tool_use", "id": f"call_{name}", "name": name, "input": arguments}


@pytest.fixture
def search(definitions):
    return ClientToolSearch(
        [
            {"name": name, "description": description, "input_schema": schema}
            for name, (description, schema) in definitions.items()
        ],
        limit=2,
    )


async def test_a_conversation_goes_from_the_search_to_the_tool(search, provider):
    asking = message(tool_use("search_tools", query="combine papers"), stop_reason="tool_use")
    calling = message(tool_use("merge_pdfs", paths="a.pdf"), stop_reason="tool_use")
    with provider(asking, calling) as (url, requests):
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none") as client:
            messages = [{"role": "user", "content": "Put my papers together."}]
            options = {"model": "claude-test", "max_tokens": 100, "tools": search.tools}
            first = await client.messages.create(messages=messages, **options)
            result = await search.result(first.content[0])
            messages += [
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]},
            ]
            second = await client.messages.create(messages=messages, **options)

    assert second.content[0].name == "merge_pdfs"
    sent = requests[1]
    assert sent["tools"][0]["name"] == "search_tools"
    assert "defer_loading" not in sent["tools"][0]
    assert all(tool["defer_loading"] for tool in sent["tools"][1:])
    assert len(sent["tools"]) == 9
    (answer,) = sent["messages"][2]["content"]
    assert answer["type"] == "tool_result"
    assert answer["tool_use_id"] == "call_search_tools"
    assert answer["content"][0] == {"type": "tool_reference", "tool_name": "merge_pdfs"}
    assert len(answer["content"]) == 2


async def test_the_tools_and_the_answer_have_the_sdk_s_types(search):
    call = anthropic.types.ToolUseBlock(**tool_use("search_tools", query="report a bug"))

    result = await search.result(call)

    for tool in search.tools:
        TypeAdapter(anthropic.types.ToolParam).validate_python(tool)
    TypeAdapter(anthropic.types.ToolResultBlockParam).validate_python(result)


async def test_an_empty_result_is_a_message(search):
    call = anthropic.types.ToolUseBlock(**tool_use("search_tools", query=""))

    assert (await search.result(call))["content"] == "No tool matches. Rephrase the query."


async def test_a_tool_of_a_tree_has_a_definition(examples, forget_modules):
    async with ToolSearch(examples) as tools:
        (hit,) = await tools.search("convert miles to kilometres", limit=1)

    param = tool_param(load_tool(hit))

    assert param["name"] == "units__convert_units"
    assert param["input_schema"]["required"] == ["value", "from_unit", "to_unit"]
    TypeAdapter(anthropic.types.ToolParam).validate_python(param)


async def test_no_tool_can_have_the_name_of_the_search_tool():
    tool = {"name": "search_tools", "input_schema": {"type": "object"}}
    with pytest.raises(ValueError, match="choose another one"):
        ClientToolSearch([tool])
    assert ClientToolSearch([tool], name="find_tools").tools[0]["name"] == "find_tools"
