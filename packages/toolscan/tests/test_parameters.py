"""The parameters of a tool, from its signature or its class."""

# ruff: noqa: E501  (modules in one string each)
import pytest
import toolscan
from toolscan import Parameter

HEAD = """from __future__ import annotations
from typing import Annotated, Optional
from enum import Enum
from pydantic import BaseModel, Field, RootModel, conint
"""


def test_the_parameters_of_a_class_are_its_fields(tool):
    record = tool(
        HEAD
        + '''
class Mode(Enum):
    fast = "fast"
class Base(BaseModel):
    """Base.

    Attributes:
        plain: By the attributes.

    Args:
        described_by_class: By the class.
    """
    inherited: int
class Params(Base):
    plain: str
    note: Optional[str] = None
    """
    The string under it.
    """
    field: int = Field(..., description="By Field.", alias="fieldAlias")
    defaulted: int = Field(3, description="Say " "it.")
    factory: list = Field(default_factory=list)
    annotated: Annotated[int, Field(description="By Annotated.")] = 4
    said: Annotated[int, "By a string."]
    constrained: conint(
        ge=1,  # comment
    ) = Field(5)
    mode: Mode = Mode.fast
    described_by_class: int
    described_by_function: int
    from_: str = Field(alias="from")
    _hidden: int = 3
def run(params: Params) -> str:
    """Does it.

    Args:
        described_by_function: By the function.
    """
'''
    )
    assert record.params_class == "Params"

    def expected(name, annotation, required, default=None, description="", alias=None):
        return Parameter(
            name=name, annotation=annotation, required=required, default=default,
            description=description, alias=alias,
        )  # fmt: skip

    assert list(record.parameters) == [
        expected("inherited", "int", True),
        expected("plain", "str", True, None, "By the attributes."),
        expected("note", "Optional[str]", False, "None", "The string under it."),
        expected("field", "int", True, None, "By Field.", "fieldAlias"),
        expected("defaulted", "int", False, "3", "Say it."),
        expected("factory", "list", False),
        expected("annotated", 'Annotated[int, Field(description="By Annotated.")]', False, "4", "By Annotated."),
        expected("said", 'Annotated[int, "By a string."]', True, None, "By a string."),
        expected("constrained", "conint(ge=1)", False, "5"),
        expected("mode", "Mode", False, "Mode.fast"),
        expected("described_by_class", "int", True, None, "By the class."),
        expected("described_by_function", "int", True, None, "By the function."),
        expected("from_", "str", True, None, "", "from"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "annotation",
    [
        "Params",
        '"Params"',
        "Optional[Params]",
        "Params | None",
        "Annotated[Params, 1]",
        '"Optional[Params]"',
    ],
)
def test_the_class_is_found_inside_any_annotation(annotation, tool):
    record = tool(
        f"{HEAD}class Params(BaseModel):\n    x: int\ndef run(it: {annotation}):\n    'D.'\n"
    )
    assert [it.name for it in record.parameters] == ["x"]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            "class Params(BaseModel):\n    x: int\ndef run(params: Params, other=1):\n",
            ["params", "other"],
        ),
        ("class Query(BaseModel):\n    x: int\ndef run(query: Query):\n", ["query"]),
        ("class Query(BaseModel):\n    x: int\ndef run(params: Query):\n", ["x"]),
        ("class Params:\n    x: int\ndef run(params: Params):\n", ["params"]),
        ("class Params(ToolParams):\n    x: int\ndef run(params: Params):\n", ["params"]),
        (
            "from .base import ToolParams\nclass Params(ToolParams):\n    x: int\ndef run(params: Params):\n",
            ["x"],
        ),
        ("def run(params: Params):\n", ["params"]),
        ("def run(params: dict[str, int]):\n", ["params"]),
        ("def run(params: 'not an annotation'):\n", ["params"]),
        ("def run(params: '\"Params\"'):\n", ["params"]),
        ("class Params(RootModel[dict]):\n    root: dict\ndef run(params: Params):\n", ["root"]),
        ("class Params(RootModel[list[int]]): ...\ndef run(params: Params):\n", ["root"]),
        ("class Params(RootModel): ...\ndef run(params: Params):\n", []),
        ("class Params(BaseModel):\n    x: int\ndef run(**params: Params):\n", ["**params"]),
        ("class Params(BaseModel):\n    x: int\ndef run(*params: Params):\n", ["*params"]),
        ("class Params(Params):\n    x: int\ndef run(params: Params):\n", ["params"]),
        (
            "class A(B): ...\nclass B(A): ...\nclass Params(A, BaseModel):\n    x: int\ndef run(params: Params):\n",
            [],
        ),
        (
            "class A(BaseModel): ...\nclass B(A): ...\nclass Params(A, B):\n    x: int\ndef run(params: Params):\n",
            [],
        ),
        ("def run():\n", []),
    ],
)
def test_only_a_model_that_represents_all_parameters_is_expanded(source, names, tool):
    assert [it.name for it in tool(f"{HEAD}{source}    'D.'\n").parameters] == names


def test_parameters_are_read_from_a_signature(tool):
    record = tool(
        HEAD + "def run(a, b: int = 3, *rest: str, c: Annotated[int, Field(description='C.')] = 1,"
        " d: int = Field(2, description='D.', alias='dd'), e: int = Field(..., gt=1), **more):\n    'D.'\n"
    )
    shown = [
        (it.name, it.annotation, it.required, it.default, it.description, it.alias)
        for it in record.parameters
    ]
    assert shown == [
        ("a", "", True, None, "", None),
        ("b", "int", False, "3", "", None),
        ("*rest", "str", False, None, "", None),
        ("c", "Annotated[int, Field(description='C.')]", False, "1", "C.", None),
        ("d", "int", False, "2", "D.", "dd"),
        ("e", "int", True, None, "", None),
        ("**more", "", False, None, "", None),
    ]  # fmt: skip
    assert record.params_class == ""


def test_annotations_are_sliced_correctly_on_lines_in_any_alphabet(tool):
    record = tool('def run(ä: "Ünï", b: "日本"): "D."\n')
    assert [it.annotation for it in record.parameters] == ['"Ünï"', '"日本"']


CLASSES = """from dataclasses import dataclass, field
from typing import Annotated, Doc, NamedTuple, TypedDict
import attrs
from pydantic import BaseModel, Field
"""


@pytest.mark.parametrize(
    "head",
    [
        "@dataclass\nclass Options:",
        "@attrs.define\nclass Options:",
        "class Options(BaseModel):",
        "class Options(TypedDict):",
        "class Options(NamedTuple):",
    ],
)
def test_descriptions_of_fields_are_read_in_every_style(head, tool):
    record = tool(
        f"""{CLASSES}{head}
    '''Options.

    Attributes:
        a: The a.

    :ivar b: The b.
    '''
    a: str
    b: str
    c: str  # not this
    'The c.'
    #: The
    #: d.
    d: str
    e: Annotated[str, Doc("The e.")]
    f: list[str]  #: The f.
def run(options: Options):
    'Do it.'
"""
    )
    schema = toolscan.input_schema(record)
    owner = schema["$defs"]["Options"]
    fields = owner.get("prefixItems") or owner["properties"].values()
    assert [it["description"] for it in fields] == [f"The {name}." for name in "abcdef"]


def test_the_fields_of_unpacked_keywords_are_parameters(tool):
    record = tool(
        """from typing import Annotated, NotRequired, Required, TypedDict, Unpack
class Base(TypedDict):
    a: int  #: The a.
class Options(Base, total=False):
    b: Required[str]
    'The b.'
    c: Annotated[NotRequired[str], 'The c.']
    d: str
def run(x: int, **options: "Unpack[Options]"):
    '''Do it.

    Keyword Args:
        d: The d.
    '''
"""
    )
    shown = [(it.name, it.required, it.description) for it in record.parameters]
    assert shown == [
        ("x", True, ""),
        ("a", True, "The a."),
        ("b", True, "The b."),
        ("c", False, "The c."),
        ("d", False, "The d."),
    ]
    schema = toolscan.input_schema(record)
    described = {name: it.get("description", "") for name, it in schema["properties"].items()}
    assert described == {name: said for name, _, said in shown}
    assert schema["required"] == ["x", "a", "b"]
    assert schema["additionalProperties"] is False


def test_metadata_of_a_field_describes_it(tool):
    record = tool(
        f"""{CLASSES}@dataclass
class Options:
    a: str = field(doc="The a.")
    b: list[str] = field(default_factory=list, metadata={{"description": "The b."}})
@attrs.frozen
class More:
    options: Options
    c: list[str] = attrs.field(factory=list, metadata={{"help": "The c."}})
def run(more: More):
    'Do it.'
"""
    )
    defs = toolscan.input_schema(record)["$defs"]
    fields = defs["Options"]["properties"] | defs["More"]["properties"]
    assert {name: it.get("description") for name, it in fields.items()} == {
        "a": "The a.",
        "b": "The b.",
        "options": None,
        "c": "The c.",
    }
    assert defs["Options"]["required"] == ["a"]
    assert defs["More"]["required"] == ["options"]
