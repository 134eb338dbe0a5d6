"""An agent of langgraph-bigtool retrieves its tools by our search."""

import asyncio

import pytest

bigtool = pytest.importorskip("langgraph_bigtool")

from langchain_core.language_models.fake_chat_models import (  # noqa: E402
    GenericFakeChatModel,
)
from langchain_core.messages import AIMessage  # noqa: E402
from langchain_core.tools import StructuredTool  # noqa: E402
from pytools_hybrid.agents.adapters.bigtool import retrieval_functions  # noqa: E402


class Scripted(GenericFakeChatModel):
    """A model that says what it was told to, and remembers the tools that it was given."""

    bound: list[list[str]]

    def bind_tools(self, tools, **_options):
        self.bound.append([getattr(tool, "name", None) or tool.__name__ for tool in tools])
        return self


def call(name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])


@pytest.fixture
def registry(definitions):
    def make(name, description):
        def run(text: str) -> str:
            return f"{name} was called with {text}"

        return StructuredTool.from_function(run, name=name, description=description)

    return {f"id-{name}": make(name, told[0]) for name, told in definitions.items()}


@pytest.fixture
def script():
    return [
        call("retrieve_tools", query="combine papers"),
        call("merge_pdfs", text="a.pdf"),
        AIMessage("done"),
    ]


def agent(model, registry):
    function, coroutine = retrieval_functions(registry, limit=1)
    return bigtool.create_agent(
        model,
        registry,
        retrieve_tools_function=function,
        retrieve_tools_coroutine=coroutine,
    ).compile()


def test_an_agent_gets_the_tool_that_it_asks_for_and_calls_it(registry, script):
    model = Scripted(messages=iter(script), bound=[])

    state = agent(model, registry).invoke({"messages": [("user", "Join my papers.")]})

    assert model.bound[0] == ["retrieve_tools"]
    assert model.bound[1] == ["retrieve_tools", "merge_pdfs"]
    assert [it.content for it in state["messages"]][-2:] == [
        "merge_pdfs was called with a.pdf",
        "done",
    ]


def test_an_async_agent_does_the_same(registry, script):
    script[0] = call("aretrieve_tools", query="combine papers")
    script[0] = call("retrieve_tools", query="combine papers")
    model = Scripted(messages=iter(script), bound=[])
    compiled = agent(model, registry)

    state = asyncio.run(compiled.ainvoke({"messages": [("user", "Join my papers.")]}))

    assert model.bound[1] == ["retrieve_tools", "merge_pdfs"]
    assert state["messages"][-1].content == "done"


def test_plain_functions_are_retrieved_too_and_new_ones_at_once(registry):
    function, _ = retrieval_functions(registry, limit=1)
    before = function("water the plants in the garden")

    def water_plants(minutes: int) -> str:
        """Water the plants in the garden."""
        return "watered"

    registry["garden"] = water_plants

    assert before != ["garden"]
    assert function("water the plants in the garden") == ["garden"]


def test_the_function_works_inside_a_running_loop(registry):
    function, _ = retrieval_functions(registry, limit=1)

    async def notebook():
        return function("report a bug")

    assert asyncio.run(notebook()) == ["id-create_issue"]


def test_two_ids_may_hold_tools_of_one_name(registry):
    both = {"one": registry["id-merge_pdfs"], "two": registry["id-merge_pdfs"]}

    retrieve, _ = retrieval_functions(both)

    assert set(retrieve("merge pdfs")) == {"one", "two"}
