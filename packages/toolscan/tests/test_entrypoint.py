"""Which function is the tool, and which docstring describes it."""

# ruff: noqa: E501  (modules in one string each)
import ast

import pytest
import toolscan

BOILERPLATE = "Run tool and return parsed structured data."


@pytest.mark.parametrize(
    "source",
    [
        "def run():\n    'Does it.'\n",
        "async def run():\n    'Does it.'\n",
        "if True:\n    def run():\n        'Does it.'\n",
        "try:\n    import x\nexcept ImportError:\n    def run():\n        'Does it.'\n",
        "try:\n    pass\nexcept* OSError:\n    pass\nelse:\n    def run():\n        'Does it.'\n",
        "try:\n    pass\nfinally:\n    def run():\n        'Does it.'\n",
        "with open('x') as f:\n    def run():\n        'Does it.'\n",
        "for x in y:\n    def run():\n        'Does it.'\n",
        "while x:\n    pass\nelse:\n    def run():\n        'Does it.'\n",
        "match x:\n    case 1:\n        def run():\n            'Does it.'\n",
        "@decorated\ndef run():\n    'Does it.'\n",
        "if a:\n    pass\n"
        + "elif b:\n    pass\n" * 900
        + "else:\n    def run():\n        'Does it.'\n",
    ],
)
def test_a_function_defined_by_importing_the_module_is_an_entry_point(source, tool):
    record = tool(source)
    assert record.entrypoint == "run"
    assert record.description == "Does it."
    assert record.is_async == source.startswith("async")
    assert record.signature.startswith("async def run(" if record.is_async else "def run(")


@pytest.mark.parametrize(
    ("source", "reason", "detail"),
    [
        (
            "class Tool:\n    def run(self):\n        'Does it.'\n",
            "no_entrypoint",
            "no function run",
        ),
        (
            "def make():\n    def run():\n        'Does it.'\n",
            "no_entrypoint",
            "no function run",
        ),
        ("from .impl import run\n", "no_entrypoint", "imported or assigned"),
        ("import x as run\n", "no_entrypoint", "imported or assigned"),
        ("run = make_tool()\n", "no_entrypoint", "imported or assigned"),
        ("run: object = make_tool()\n", "no_entrypoint", "imported or assigned"),
        ("class run:\n    pass\n", "no_entrypoint", "imported or assigned"),
        ("def run():\n    'Does it.'\ndel run\n", "no_entrypoint", "no function run"),
        ("x.run = 1\nprint()\n", "no_entrypoint", "no function run"),
        (
            "if TYPE_CHECKING:\n    def run():\n        'Does it.'\n",
            "no_entrypoint",
            "no function",
        ),
        (
            "if typing.TYPE_CHECKING:\n    def run():\n        'x'\n",
            "no_entrypoint",
            "no function",
        ),
        ("@overload\ndef run():\n    'Does it.'\n", "no_entrypoint", "no function"),
        ("@typing.overload\ndef run():\n    'Does it.'\n", "no_entrypoint", "no function"),
        ("def run(): pass\n", "no_docstring", "run()"),
        ("def run():\n    ''\n", "no_docstring", "run()"),
        ("def run():\n    '  \\n '\n", "no_docstring", "run()"),
        ("def run():\n    f'Does {it}.'\n", "no_docstring", "run()"),
        (
            "def run(): pass\ndef run_parsed(): pass\n",
            "no_docstring",
            "run() and run_parsed()",
        ),
    ],
)
def test_a_module_without_a_described_entry_point_is_an_issue_with_the_reason(
    source, reason, detail, tool
):
    with pytest.raises(toolscan.ToolScanError) as caught:
        tool(source)
    assert caught.value.issue.reason == reason
    assert detail in caught.value.issue.detail


def both(parsed, run):
    return f"def run():\n    {run!r}\ndef run_parsed():\n    {parsed!r}\n"


@pytest.mark.parametrize(
    ("parsed", "run", "entrypoint", "description", "summary"),
    [
        ("Parses mail.", "", "run_parsed", "Parses mail.", "Parses mail."),
        ("", "Reads mail.", "run", "Reads mail.", "Reads mail."),
        ("Parses mail.", "Reads it.", "run_parsed", "Parses mail.\n\nReads it.", "Parses mail."),
        ("Reads mail.", "Reads mail.", "run_parsed", "Reads mail.", "Reads mail."),
        ("Reads it. Then.", "Reads it.", "run_parsed", "Reads it. Then.", "Reads it."),
        ("Reads it.", "Reads it. Then.", "run_parsed", "Reads it. Then.", "Reads it."),
        (BOILERPLATE, "Reads it.", "run_parsed", f"{BOILERPLATE}\n\nReads it.", "Reads it."),
        ("Run thing.", "Reads it.", "run_parsed", "Run thing.\n\nReads it.", "Reads it."),
        ("Parses it.", "Run the tool.", "run_parsed", "Parses it.\n\nRun the tool.", "Parses it."),
        (BOILERPLATE, "Run it.", "run_parsed", f"{BOILERPLATE}\n\nRun it.", BOILERPLATE),
        (BOILERPLATE, "", "run_parsed", BOILERPLATE, BOILERPLATE),
    ],
)
def test_both_docstrings_are_kept_and_boilerplate_is_not_the_summary(
    parsed, run, entrypoint, description, summary, tool
):
    record = tool(both(parsed, run))
    assert (record.entrypoint, record.description) == (entrypoint, description)
    assert record.summary == summary


def test_an_args_section_of_either_docstring_describes_the_parameters(tool):
    args = "Run the tool.\n\n    Args:\n        title: Its name.\n    "
    for parsed, run in ((args, "Files a ticket."), ("Files a ticket.", args)):
        source = both(parsed, run).replace("()", "(title)")
        assert tool(source).parameters[0].description == "Its name."


def test_a_later_definition_replaces_an_earlier_one(tool):
    assert tool("def run():\n    'Old.'\ndef run(a):\n    'New.'\n").description == "New."


def test_the_first_branch_with_a_docstring_is_used(tool):
    record = tool("if x:\n    def run(): pass\nelse:\n    def run(a):\n        'Says it.'\n")
    assert record.signature == "def run(a)"


@pytest.mark.parametrize(
    ("written", "signature"),
    [
        ("def run( a:int=3,*,b )->str:", "def run(a: int = 3, *, b) -> str"),
        ("def run(a, /, b=1, *args, c: 'X', **kw):", "def run(a, /, b=1, *args, c: 'X', **kw)"),
        (
            "def run(a: Optional[\n    int  # comment\n] = None):",
            "def run(a: Optional[int] = None)",
        ),
        ("async def run(é: Literal['ü']):", "async def run(é: Literal['ü'])"),
        ("def run(a: int = (n := 3)) -> (m := int):", "def run(a: int = (n := 3)) -> (m := int)"),
        ("def run(a: (yield) = (yield 1), b=(yield from c)):",
         "def run(a: (yield) = (yield 1), b=(yield from c))"),
        ("def run(a: (lambda: 1) = (lambda: 2), b=(x for x in y), *c: *Ts):",
         "def run(a: lambda: 1 = lambda: 2, b=(x for x in y), *c: *Ts)"),
        ("def run(a=(\n    n := 3)):", "def run(a=(n := 3))"),
    ],
)  # fmt: skip
def test_the_signature_is_one_line_as_written(written, signature, tool):
    assert tool(f"{written}\n    'Does it.'\n").signature == signature
    ast.parse(f"{signature}: ...")


def test_definitions_contain_no_function_bodies(tool):
    record = tool(
        "'doc'\nimport a; import b\nX = 1\ndef helper():\n    secret = 1\nX.add(2)\n@mark\nclass A:\n    x: int\n"
        "if y:\n    Z = 2\ndef run(a: X): # why\n    'Does it.'\n    body = 1\n"
    )
    assert record.definitions == (
        "import a\nimport b\nX = 1\ndef helper(): ...\nX.add(2)\n@mark\nclass A:\n    x: int\nif y:\n    Z = 2\ndef run(a: X): ..."
    )
    assert toolscan.input_schema(record)["required"] == ["a"]


def test_a_name_deleted_in_a_branch_or_before_its_definition_is_still_defined(tool):
    assert (
        tool("if x:\n    del run\ndel other, run\ndef run():\n    'Does it.'\n").entrypoint == "run"
    )


@pytest.mark.parametrize(
    "head",
    [
        "X = 1; Y = [\n 1,\n]",
        "import os; from typing import (\n Optional,\n); Z = 1",
        '"""Module.\n"""; V = "1"',
        'V = 1; """text\nmore"""',
        'V = 1; \\\n"""text\nmore"""',
        'V = "é"; W = """ü\né"""; """text\nmore"""',
        "class A: x: int = 1; \\\n\nX = 1",
        "@mark\nclass A: x: int; y: int = 1",
    ],
)
def test_statements_that_share_lines_are_kept_apart(head, tool):
    record = tool(f"{head}\ndef run(a: int) -> str:\n    'Does it.'\n")
    ast.parse(record.definitions)
    assert toolscan.input_schema(record)["required"] == ["a"]
    assert toolscan.output_schema(record) == {"type": "string"}
    assert "run" in toolscan.stub(record)


def test_a_number_too_long_for_python_to_print_is_an_issue(tool):
    with pytest.raises(toolscan.ToolScanError) as caught:
        tool(f"def run(a=[\n0x{'f' * 5_000}]):\n    'Does it.'\n")
    assert caught.value.issue.reason == "too_large"
