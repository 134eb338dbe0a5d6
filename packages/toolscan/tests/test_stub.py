"""A stub is Python that an agent can act on."""

# ruff: noqa: E501  (modules in one string each)
import ast

import pytest
from toolscan import stub

SOURCE = '''from enum import Enum
from typing import Literal, Optional
from pydantic import BaseModel, Field
class Mode(Enum):
    fast = "fast"
    slow = "slow"
class Params(BaseModel):
    title: str
    """
    What it is
    called.
    """
    mode: Optional[Mode] = Mode.fast
    modes: list[Mode] = Field(default_factory=list, description="All of them, of which there may be many, in "
        "order.")
    from_: int = Field(3, alias="from")
    of_size: int = Field(4, alias="ofSize")
    size: int
def run(params: Params) -> str:
    """Files a ticket. And more."""
'''


def test_a_class_is_shown_with_the_fields_its_constructor_takes(tool):
    assert (
        stub(tool(SOURCE))
        == '''from mcptools.demo.thing import Params, run

class Params:
    title: str  # What it is called.
    mode: Optional[Mode] = Mode.fast  # One of 'fast', 'slow'.
    # All of them, of which there may be many, in order. One of 'fast', 'slow'.
    modes: list[Mode] = ...
    from_: int = 3  # Passed as 'from'.
    ofSize: int = 4
    size: int

def run(params: Params) -> str:
    """Files a ticket."""'''
    )


def test_a_signature_is_shown_with_the_meaning_of_its_arguments(tool):
    record = tool(
        "async def run(a: int, b=1, *rest) -> None:\n"
        "    '''Does it.\n\n    Args:\n        a: The a.\n        rest: The rest.\n    '''\n",
        "gentools/data/clean/api.py",
    )
    assert (
        stub(record)
        == '''from gentools.data.clean.api import run

async def run(a: int, b=1, *rest) -> None:
    """Does it.

    Args:
        a: The a.
        *rest: The rest.
    """'''
    )


def test_a_path_that_is_no_module_name_says_so(tool):
    shown = stub(tool("def run():\n    'Does it.'\n", "mcptools/demo/get-it.py"))
    assert shown == (
        "# Load 'mcptools/demo/get-it.py' with importlib: its path is no module name.\n\n"
        'def run():\n    """Does it."""'
    )


@pytest.mark.parametrize(
    "summary",
    [
        'Says "it"',
        "Uses \\d",
        'Has """ in it',
        "Ends with '",
        "word " * 60,
        "Has \"\"\" and ''' in it",
        "\\",
    ],
)
def test_a_stub_parses_whatever_the_summary(summary, tool):
    shown = stub(tool(f"def run(a):\n    {summary!r}\n"))
    (function,) = ast.parse(shown).body[1:]
    said = ast.get_docstring(function)
    assert said.split() == summary.split()
    assert max(map(len, shown.splitlines())) <= 100


def test_a_class_without_fields_is_still_a_class(tool):
    source = "from pydantic import BaseModel\nclass Params(BaseModel):\n    pass\ndef run(params: Params):\n    'D.'\n"
    assert "class Params:\n    ..." in stub(tool(source))
