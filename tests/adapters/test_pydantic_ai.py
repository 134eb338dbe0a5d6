"""A pydantic-ai agent finds deferred tools with our search, and calls the tools of a tree."""

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.capabilities import ToolSearch as ToolSearchCapability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pytools_hybrid import ToolSearch
from pytools_hybrid.agents.adapters.pydantic_ai import search_strategy, toolset

pytestmark = pytest.mark.anyio


def deferred(definitions):
    def make(name, description, schema):
        def run(**arguments):
            return f"{name} was called with {arguments}"

        tool = Tool.from_schema(run, name, description, schema)
        tool.defer_loading = True
        return tool

    return [make(name, *told) for name, told in definitions.items()]


class Script:
    """A model that makes given calls in order, then ends."""

    def __init__(self, *calls):
        self.calls = list(calls)
        self.offered = []
        self.messages = []

    def __call__(self, messages, info):
        self.messages = messages
        self.offered.append([tool.name for tool in info.function_tools])
        if self.calls:
            name, arguments = self.calls.pop(0)
            return ModelResponse([ToolCallPart(name, arguments)])
        return ModelResponse([TextPart("done")])


async def test_a_deferred_tool_is_found_by_meaning_and_then_called(definitions):
    script = Script(
        ("search_tools", {"queries": ["combine papers"]}),
        ("merge_pdfs", {"paths": "a.pdf b.pdf"}),
    )
    agent = Agent(
        FunctionModel(script),
        tools=deferred(definitions),
        capabilities=[ToolSearchCapability(strategy=search_strategy(limit=2))],
    )

    result = await agent.run("Put my papers together.")

    assert result.output == "done"
    assert script.offered[0] == ["search_tools"]
    assert "merge_pdfs" in script.offered[1]
    assert len(script.offered[1]) == 3
    assert "merge_pdfs was called" in str(result.all_messages())


async def test_the_best_tool_of_each_query_comes_first(definitions):
    strategy = search_strategy(limit=2)
    tools = [tool.tool_def for tool in deferred(definitions)]

    names = await strategy(None, ["report a bug", "will it rain"], tools)

    assert names == ["create_issue", "get_forecast"]


async def test_an_agent_calls_the_tools_of_a_tree(examples, forget_modules):
    async with ToolSearch(examples) as tools:
        hits = await tools.search("convert miles to kilometres", limit=1)
    model = TestModel(custom_output_text="done")
    script = Script(("units__convert_units", {"value": 1, "from_unit": "mi", "to_unit": "km"}))

    await Agent(model, toolsets=[toolset(hits)]).run("How far?", model=FunctionModel(script))

    assert script.offered[0] == ["units__convert_units"]
    assert "1.609" in str(script.messages)


async def test_invalid_arguments_are_returned_to_the_model(examples, forget_modules):
    async with ToolSearch(examples) as tools:
        hits = await tools.search("convert miles to kilometres", limit=1)
    script = Script(("units__convert_units", {"value": "many", "from_unit": "mi"}))

    await Agent(FunctionModel(script), toolsets=[toolset(hits)]).run("How far?")

    (told,) = [
        part
        for message in script.messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert told.outcome == "retried"
    assert "value: Input should be a valid number" in told.content
    assert "to_unit: Missing required" in told.content


async def test_a_test_model_can_call_every_tool_that_was_found(write_tree, forget_modules):
    root = write_tree(
        {
            "mcptools/shop/order.py": '''
                from pydantic import BaseModel

                class Params(BaseModel):
                    item: str
                    count: int = 1

                class Result(BaseModel):
                    ordered: str

                async def run(params: Params) -> Result:
                    """Order an item in the shop."""
                    return Result(ordered=f"{params.count} x {params.item}")
            ''',
            "gentools/shop/refund/api.py": '''
                def run_parsed(number: int) -> dict[str, int]:
                    """Give money back for an order of the shop."""
                    return {"refunded": number}

                def run(number: int) -> str:
                    return str(number)
            ''',
        }
    )
    async with ToolSearch(root) as tools:
        hits = await tools.search("shop order")
    agent = Agent(TestModel(), toolsets=[toolset(hits)])

    result = await agent.run("Buy something.")

    assert '"shop__order":{"ordered":"1 x a"}' in result.output
    assert '"shop__refund":{"refunded":0}' in result.output


async def test_a_tool_that_cannot_be_imported_is_left_out_and_reported(
    write_tree, forget_modules, caplog
):
    root = write_tree(
        {
            "mcptools/bakery/bake.py": '''
                import no_such_library

                def run() -> str:
                    """Bake bread in the bakery."""
            ''',
            "mcptools/bakery/sell.py": '''
                def run() -> str:
                    """Sell bread of the bakery."""
                    return "sold"
            ''',
        }
    )
    async with ToolSearch(root) as tools:
        hits = await tools.search("bread")

    assert list(toolset(hits).tools) == ["bakery__sell"]
    assert "No module named 'no_such_library'" in caplog.text


async def test_tools_with_the_same_name_are_distinguished_and_none_is_listed_twice(
    write_tree, forget_modules
):
    source = '''
        def run() -> None:
            """Sell bread of the bakery {}."""
    '''
    root = write_tree(
        {
            "mcptools/bakery/sell.py": source.format("by machine"),
            "gentools/bakery/sell/api.py": source.format("by hand"),
        }
    )
    async with ToolSearch(root) as tools:
        hits = await tools.search("bread")

    assert list(toolset([*hits, *hits]).tools) == ["bakery__sell", "bakery__sell_2"]
