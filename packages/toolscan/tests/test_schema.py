"""How the static schemas differ from pydantic's, and their limits."""

# ruff: noqa: E501  (modules in one string each)
import json
import sys
from dataclasses import replace

import jsonschema
import pytest
from toolscan import input_schema, output_schema, scan, stub

HEAD = """from __future__ import annotations
from typing import *
from enum import Enum
from pydantic import BaseModel, ConfigDict, Field
"""


def params(body, tool, before=""):
    source = (
        f"{HEAD}{before}\nclass Params(BaseModel):\n{body}\ndef run(params: Params):\n    'D.'\n"
    )
    return input_schema(tool(source))


def test_the_string_under_a_field_describes_it(tool):
    schema = params(
        '    a: int\n    """\n    The a.\n    """\n    b: Annotated[str, "The b."]', tool
    )
    assert schema["properties"] == {
        "a": {"type": "integer", "description": "The a."},
        "b": {"type": "string", "description": "The b."},
    }


def test_the_args_section_describes_the_arguments_of_a_function(tool):
    record = tool(
        "def run(a: int, *, b=1):\n    '''D.\n\n    Args:\n        a: The a.\n        b: The b.\n    '''\n"
    )
    assert input_schema(record) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The a."},
            "b": {"description": "The b.", "default": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert output_schema(record) is None


def test_generated_titles_are_left_out_and_written_ones_kept(tool):
    schema = params("    a: int = Field(title='An a')\n    b: int", tool)
    assert schema["properties"] == {
        "a": {"type": "integer", "title": "An a"},
        "b": {"type": "integer"},
    }
    assert "title" not in schema


@pytest.mark.parametrize(
    "annotation",
    [
        "Unknown", "module.Unknown", "bytearray", "Callable[[int], str]", "type", "call()", "3",
        "'not an annotation'", "Literal[unknown]", "conint", "x.y[z]", "lambda: 1", "unknown[int]",
        "'[' * 9", "Annotated[int]", "Alias.x", "List.x.y",
    ],
)  # fmt: skip
def test_an_unknown_type_allows_anything(annotation, tool):
    assert params(f"    a: {annotation}", tool, "Alias = 1")["properties"] == {"a": {}}


@pytest.mark.parametrize(
    "default",
    ["make()", "unknown", "Unknown.a", "1j", "float('inf')", "1e999", "'\\ud800'", "b'\\xff'",
     "{**{}}", "[make()]", "-'a'", "'a' + 1", "E.zz", "E.a.name.x", "{'a': make()}", "1 if 2 else 3"],
)  # fmt: skip
def test_a_default_that_is_not_a_constant_is_left_out(default, tool):
    schema = params(f"    a: int = {default}", tool, "class E(Enum):\n    a = 1")
    assert schema["properties"] == {"a": {"type": "integer"}}
    assert "required" not in schema


@pytest.mark.parametrize(
    ("default", "value"),
    [("E.a", 1), ("E.a.value", 1), ("+1", 1), ("'a' 'b' + 'c'", "abc"), ("[LIMIT]", [7]), ("(1, {})", [1, {}]),
     ("b'\\xc3\\xa9'", "é"), ("Outer.E.b", 2)],
)  # fmt: skip
def test_a_constant_default_is_evaluated(default, value, tool):
    before = "LIMIT = 7\nclass E(Enum):\n    a = 1\nclass Outer:\n    class E(Enum):\n        b = 2"
    assert params(f"    a: Any = {default}", tool, before)["properties"]["a"] == {"default": value}


def test_metadata_other_than_texts_and_calls_is_ignored(tool):
    before = "from typing_extensions import Doc"
    schema = params("    a: Annotated[int, Strict, 3, Doc('The a.')]", tool, before)
    assert schema["properties"] == {"a": {"type": "integer", "description": "The a."}}


def test_too_deeply_nested_type_arguments_leave_the_class_open(tool):
    before = "T = TypeVar('T')\nclass P(BaseModel, Generic[T]):\n    p: T"
    source = f"{HEAD}{before}\ndef run(a: {'P[' * 150}int{']' * 150}):\n    'D.'\n"
    record = tool(source)

    def call_below(depth):
        return call_below(depth - 1) if depth else input_schema(record)

    frames, frame = 0, sys._getframe()
    while frame := frame.f_back:
        frames += 1
    schema = call_below(sys.getrecursionlimit() - frames - 250)
    assert schema["properties"] == {"a": {}}


def test_every_schema_is_valid(tool):
    schema = params(
        "    a: Dict[str, List[E]] = Field(alias='A', description='d')\n    b: Optional[Params] = None",
        tool,
        "class E(Enum):\n    x = 1\n    y = 'y'",
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"A": {"k": [1, "y"]}, "b": {"A": {}}})
    assert not validator.is_valid({"A": {"k": ["z"]}})


@pytest.mark.parametrize(
    ("before", "annotation"),
    [
        ("A = A", "A"),
        ("A = Union[A, int]\nB = List[A]", "B"),
        ("A = Union[B, List[B]]\nB = Union[A, Dict[str, A]]", "A"),
        ("\n".join(["A0 = int", *(f"A{n + 1} = Dict[str, Union[A{n}, List[A{n}]]]" for n in range(60))]), "A60"),
        ("\n".join(["A0 = int", *(f"A{n + 1} = Union[A{n}, A{n}]" for n in range(60))]), "A60"),
        ("\n".join(["A0 = Literal[1]", *(f"A{n + 1} = Literal[A{n}, A{n}]" for n in range(60))]), "A60"),
        ("int = Union[int, 'T']\nT = NewType('T', int)", "int"),
        ("T = TypeVar('T')\nclass P(BaseModel, Generic[T]):\n    p: P[List[T]]\n    q: P[Dict[str, T]]", "P[int]"),
        ("", "List[" * 99 + "int" + "]" * 99),
        ("", "List[" * 190 + "int" + "]" * 190),
        ("T = TypeVar('T')\nclass P(BaseModel, Generic[T]):\n    p: T", "P[" * 190 + "int" + "]" * 190),
        ("", "|".join(["int"] * 800)),
        ("", "'\"" + "int" + "\"'"),
        ("\n".join(["class C0(BaseModel): ...", *(f"class C{n + 1}(C{n}): ..." for n in range(90))]), "C90"),
        ("\n".join(["class C0(BaseModel): ...", "class C1(C0): ...", *(
            f"class C{n + 2}(C{n + 1}, C{n}): ..." for n in range(60))]), "C61"),
    ],
    ids=str,
)  # fmt: skip
def test_infinitely_nested_types_terminate(before, annotation, tool):
    schema = params(f"    a: {annotation}", tool, before)
    assert len(json.dumps(schema)) < 2_000_000


def test_infinitely_nested_constants_terminate(tool):
    doubled = "\n".join(["X0 = [1]", *(f"X{n + 1} = [X{n}, X{n}]" for n in range(45))])
    assert params("    a: Any = X45", tool, doubled)["properties"] == {"a": {}}
    assert params("    a: Any = Y", tool, "Y = Y")["properties"] == {"a": {}}


def test_generic_classes_keep_their_arguments_apart(tool):
    before = (
        "T = TypeVar('T')\nclass Box(BaseModel, Generic[T]):\n    inner: Tray[T]\n"
        "class Tray(BaseModel, Generic[T]):\n    item: T"
    )
    schema = params("    a: Box[int]\n    b: Box[str]", tool, before)
    kinds = {name: it["properties"] for name, it in schema["$defs"].items()}
    assert kinds["Tray_int_"] == {"item": {"type": "integer"}}
    assert kinds["Tray_str_"] == {"item": {"type": "string"}}


@pytest.mark.parametrize(
    ("body", "schema"),
    [
        ("class E(Enum):\n    pass", {}),
        ("class E(Enum):\n    a = make()", {}),
        ("class E(Enum):\n    'Doc.'\n    a = 1", {"enum": [1], "type": "integer", "description": "Doc."}),
        ("class E(int, Enum):\n    a = 'x'", {}),
        ("class E(float, Enum):\n    a = '1.5'", {"enum": [1.5], "type": "number"}),
        ("class E(NamedTuple):\n    pass", {"type": "array", "maxItems": 0}),
        ("class E(RootModel):\n    pass", {}),
        ("class E:\n    pass", {}),
        ("class E(BaseModel):\n    'A class.'\n    model_config = make()\n    model_config[0] = 1",
         {"type": "object", "description": "A class."}),
        ("class E(BaseModel, **more):\n    model_config = {**x, 'extra': 'forbid', y: 1}",
         {"type": "object"}),
        ("class E(BaseModel):\n    class Config:\n        'x'\n        extra = 'allow'\n    model_config = ConfigDict(**x)",
         {"type": "object"}),
        ("BASE = {}\nclass E(BaseModel):\n    model_config = BASE", {"type": "object", "properties": {}}),
        ("@mark\n@other.mark(1)\nclass E:\n    x: int", {}),
        ("from typing_extensions import ReadOnly\nclass E(TypedDict):\n    x: ReadOnly[list[int]]",
         {"type": "object", "required": ["x"],
          "properties": {"x": {"type": "array", "items": {"type": "integer"}}}}),
        ("T = TypeVar('T', covariant=True)\nclass E(BaseModel):\n    x: T",
         {"type": "object", "properties": {"x": {}}, "required": ["x"]}),
    ],
)  # fmt: skip
def test_a_class_with_few_details_has_a_general_schema(body, schema, tool):
    found = params("    a: E", tool, f"from pydantic import RootModel\n{body}")
    assert found["$defs"]["E"] == schema


def test_an_unresolvable_discriminator_still_results_in_a_union(tool):
    before = "class A(BaseModel):\n    kind: Kind\nclass Kind(Enum):\n    a = 1"
    schema = params("    a: Union[A, int, Unknown] = Field(discriminator='kind')", tool, before)
    assert "discriminator" not in schema["properties"]["a"]
    assert len(schema["properties"]["a"]["anyOf"]) == 3
    schema = params(
        "    a: Union[A, A2] = Field(discriminator='x')", tool, f"{before}\nclass A2(A): ..."
    )
    assert schema["properties"]["a"] == {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A2"}]}


def test_args_sections_describe_fields_in_the_schema_too(tool):
    record = tool(
        f"{HEAD}class Params(BaseModel):\n    '''P.\n\n    Attributes:\n        a: The a.\n    '''\n"
        "    a: int\n    b_: int = Field(alias='b')\n    c: int = Field(description='Its own.')\n"
        "    more: 'Params | None' = None\n"
        "def run(params: Params):\n    '''D.\n\n    Args:\n        b_: The b.\n        c: Not this.\n    '''\n"
    )
    properties = input_schema(record)["$defs"]["Params"]["properties"]
    said = {it.alias or it.name: it.description for it in record.parameters}
    assert {name: it.get("description", "") for name, it in properties.items()} == said
    assert said == {"a": "The a.", "b": "The b.", "c": "Its own.", "more": ""}


@pytest.mark.parametrize("definitions", ["", "X = 1", "def run(:", "x" + "(" * 500])
def test_a_record_built_by_hand_has_open_schemas(definitions, tool):
    record = replace(tool("def run(a) -> int:\n    'Does it.'\n"), definitions=definitions)
    assert input_schema(record) == {"type": "object"}
    assert output_schema(record) is None
    assert "Does it." in stub(record)


def test_a_too_deeply_nested_schema_is_open(tool, monkeypatch):
    def deep(*_):
        raise RecursionError

    record = tool("def run(a) -> int:\n    'Does it.'\n")
    monkeypatch.setattr("toolscan._schema.parse", deep)
    assert input_schema(record) == {"type": "object"}
    assert output_schema(record) is None


def test_a_scan_without_definitions_changes_nothing_else(tmp_path):
    path = tmp_path / "mcptools/demo/tool.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"{HEAD}def run(a: int) -> int:\n    'Does it.'\n")
    (whole,) = scan(tmp_path).records
    (slim,) = scan(tmp_path, definitions=False).records
    assert replace(whole, definitions="", stamp=slim.stamp) == slim
    assert (input_schema(slim), output_schema(slim)) == ({"type": "object"}, None)
