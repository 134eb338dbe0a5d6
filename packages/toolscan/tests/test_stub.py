"""Stubs: valid Python that shows an agent how to call a tool."""

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


def test_a_path_that_is_not_a_module_name_is_noted_in_the_stub(tool):
    shown = stub(tool("def run():\n    'Does it.'\n", "mcptools/demo/get-it.py"))
    assert shown == (
        "# Load 'mcptools/demo/get-it.py' with importlib: its path is not a module name.\n\n"
        'def run():\n    """Does it."""'
    )


@pytest.mark.parametrize(
    "summary",
    [
        'Says "it"',
        "Uses \\d",
        'Has """ in it',
        "Ends with '",
        'Ends with """',
        'Ends with \\""""',
        '"',
        "word " * 60,
        "Has \"\"\" and ''' in it",
        "\\",
    ],
)
def test_a_stub_with_any_summary_can_be_parsed(summary, tool):
    shown = stub(tool(f"def run(a):\n    {summary!r}\n"))
    (function,) = ast.parse(shown).body[1:]
    said = ast.get_docstring(function)
    assert said.split() == summary.split()
    assert max(map(len, shown.splitlines())) <= 100


def test_a_class_without_fields_is_still_a_class(tool):
    source = "from pydantic import BaseModel\nclass Params(BaseModel):\n    pass\ndef run(params: Params):\n    'D.'\n"
    assert "class Params:\n    ..." in stub(tool(source))


HEAD = "from enum import Enum\nfrom typing import *\nfrom pydantic import BaseModel, Field, RootModel\n"


def test_a_keyword_is_not_a_module_name(tool):
    shown = stub(tool("def run():\n    'Does it.'\n", "mcptools/async/import.py"))
    assert shown.startswith("# Load 'mcptools/async/import.py'")
    ast.parse(shown)


@pytest.mark.parametrize(
    ("annotation", "listed"),
    [
        ("A", True), ("Optional[A]", True), ("List[A]", True), ("Optional[List[A]]", True),
        ("Union[A, B]", False), ("Union[int, A]", False), ("List[Union[A, int]]", False),
        ("list", False),
    ],
)  # fmt: skip
def test_choices_are_listed_if_they_are_complete(annotation, listed, tool):
    enums = "class A(Enum):\n    x = 'x'\nclass B(Enum):\n    y = 'y'\n"
    fields = f"class Params(BaseModel):\n    a: {annotation}\n    more: Optional['Params'] = None\n"
    for source in (f"{fields}def run(params: Params):", f"def run(a: {annotation}):"):
        assert ("One of 'x'." in stub(tool(f"{HEAD}{enums}{source}\n    'D.'\n"))) == listed


def test_control_characters_are_shown_as_escapes(tool):
    said = repr("N\x00U\x1bL \u202e \\d\x85")
    shown = stub(tool(f"def run(a):\n    {said[:-1]}\\n\\nArgs:\\n    a: {said[1:]}\n"))
    assert "\\x00" in shown
    assert ast.get_docstring(ast.parse(shown).body[1]).startswith("N\0U\x1bL \u202e \\d")
    shown = stub(
        tool(
            f"{HEAD}class Params(BaseModel):\n    a: int = Field(description={said})\n"
            "def run(params: Params):\n    'D.'\n"
        )
    )
    assert "# N\\x00U\\x1bL \\u202e \\d" in shown
    ast.parse(shown)


def test_a_root_model_is_shown_with_its_root(tool):
    shown = stub(
        tool(f"{HEAD}class Params(RootModel[list[int]]): ...\ndef run(params: Params):\n    'D.'\n")
    )
    assert "class Params:\n    root: list[int]" in shown


NESTED = """class Mode(Enum):
    fast = "fast"
class Deep(BaseModel):
    x: int
class Item(BaseModel):
    name: str = Field(description="What it is\\x00 called.")
    size: int = 3
    mode: Mode = Field(default_factory=make)
    kind: Literal["a"] | Literal["b", "c"]
    deep: Optional[Deep] = None
    tags: list[str]
    counts: dict[str, float]
    mixed: Any
    one: Union[bool, dict]
    from_: int = Field(alias="from")
class Odd(BaseModel):
    from_: int = Field(alias="from")
"""


def test_classes_that_parameters_refer_to_are_shown_with_their_fields(tool):
    record = tool(f"{HEAD}{NESTED}def run(items: list[Item], odd: Odd, mode: Mode):\n    'D.'\n")
    shown = stub(record)
    assert (
        shown
        == """from mcptools.demo.thing import Item, Odd, run

class Item:
    name: str  # What it is\\x00 called.
    size: int = 3
    mode: Literal['fast'] = ...
    kind: Literal['a'] | Literal['b', 'c']
    deep: Deep | None = None
    tags: list[str]
    counts: dict[str, float]
    mixed: Any
    one: bool | dict
    # 'from': int

class Odd:
    # 'from': int
    ...

def run(items: list[Item], odd: Odd, mode: Mode):
    \"\"\"D.

    Args:
        mode: One of 'fast'.
    \"\"\""""
    )
    ast.parse(shown)


def test_no_more_than_ten_classes_are_shown(tool):
    classes = "".join(f"class C{n}(BaseModel):\n    x: int\n" for n in range(12))
    fields = "".join(f"    f{n}: C{n}\n" for n in range(12))
    record = tool(
        f"{HEAD}{classes}class Params(BaseModel):\n{fields}def run(params: Params):\n    'D.'\n"
    )
    assert stub(record).count("class C") == 10


@pytest.mark.parametrize(
    ("other", "is_shown"),
    [
        ("async def run_async(params: Params) -> str: ...", True),
        ("async def run_async(params: Params, more: int) -> str: ...", False),
        ("def run_async(params: Params) -> str: ...", False),
    ],
)
def test_a_second_function_for_event_loops_is_shown_if_it_has_the_same_parameters(
    tool, other, is_shown
):
    shown = stub(tool(f"{SOURCE}{other}\n"))
    ast.parse(shown)
    assert shown.endswith(f"\n\n{other}") is is_shown
    assert ("import Params, run, run_async\n" in shown) is is_shown
