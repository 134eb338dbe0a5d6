"""Other layouts: a module for each tool, or modules with several functions."""

import pytest
import toolscan
from toolscan import LAYOUTS, Layout, find_tools, read_tool, scan

MODULES, FUNCTIONS, PACKAGES = LAYOUTS["modules"], LAYOUTS["functions"], LAYOUTS["packages"]
MERGE = '''
def merge(paths: list[str]) -> str:
    """Combine documents.

    Args:
        paths: In order
    """
'''
ROTATE = '''
async def rotate(path: str, by: int = 90) -> None:
    """Turn the pages."""
'''
HELP = "def _help():\n    'Help.'\n"


def found(root, *layouts):
    report = scan(root, layouts=layouts)
    assert find_tools(root, layouts=layouts) == {it.id: it.path for it in report.records}
    return {str(it.id): it.entrypoint for it in report.records}


def reasons(root, *layouts):
    return {it.path: (it.reason, it.detail) for it in scan(root, layouts=layouts).issues}


def test_a_modules_tool_is_its_namesake_function_or_its_only_public_one(tree):
    root = tree(
        {
            "pdf/merge.py": ROTATE + MERGE,
            "pdf/turn.py": ROTATE + HELP,
            "pdf/both.py": "def run():\n    'Do it.'\n" + MERGE,
            "pdf/_client.py": MERGE,
            "pdf/__init__.py": "",
        }
    )

    assert found(root, MODULES) == {
        "modules:pdf:both": "run",
        "modules:pdf:merge": "merge",
        "modules:pdf:turn": "rotate",
    }


def test_a_module_whose_function_cannot_be_determined_is_left_out_with_the_reason(tree):
    root = tree(
        {"pdf/several.py": ROTATE + MERGE, "pdf/bare.py": "def bare(): ...", "pdf/none.py": HELP}
    )

    assert reasons(root, MODULES) == {
        "pdf/bare.py": ("no_docstring", "No docstring in bare() says what it does."),
        "pdf/none.py": (
            "no_entrypoint",
            "It defines no function none(), and 0 other public ones.",
        ),
        "pdf/several.py": (
            "no_entrypoint",
            "It defines no function several(), and 2 other public ones.",
        ),
    }


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (MERGE + ROTATE + HELP, {"merge", "rotate"}),
        (MERGE + "@tool" + ROTATE, {"rotate"}),
        (MERGE + "@server.tool(name='x')" + ROTATE, {"rotate"}),
        ("__all__ = ['merge']\n" + MERGE + ROTATE, {"merge"}),
        ("__all__ = ('merge', '_help')\n" + MERGE + ROTATE + HELP, {"merge", "_help"}),
        (MERGE + "def bare(): ...", {"merge"}),
        (MERGE + ROTATE + "del rotate", {"merge"}),
        ("from x import rotate\nclass Merge: ...\n" + MERGE, {"merge"}),
    ],
)
def test_a_modules_tools_are_marked_or_exported_functions_or_all_public_ones(tree, source, names):
    ids = {f"functions:pdf:{name}": name for name in names}

    assert found(tree({"pdf.py": source}), FUNCTIONS) == ids


def test_a_function_of_a_module_is_read_like_a_module_with_one_function(tree):
    root = tree(
        {"pdf.py": f"from __future__ import annotations\n{MERGE}{ROTATE}", "m/pdf.py": MERGE}
    )

    one = read_tool("m/pdf.py", root, layouts=[MODULES])
    other = read_tool("pdf.py", root, name="merge", layouts=[FUNCTIONS])

    assert toolscan.input_schema(one) == toolscan.input_schema(other)
    assert (one.signature, one.description, one.summary, one.parameters, one.returns) == (
        other.signature,
        other.description,
        other.summary,
        other.parameters,
        other.returns,
    )
    assert "from pdf import merge" in toolscan.stub(other)


def test_a_wrong_tool_declaration_is_an_issue_and_other_tools_are_kept(tree):
    root = tree(
        {
            "one.py": "@tool\ndef bare(): ...\n@tool" + MERGE,
            "two.py": "from .x import rotate\n__all__ = ['merge', 'rotate']" + MERGE,
            "three.py": "def merge(: ...",
            "four.py": HELP,
        }
    )

    assert set(found(root, FUNCTIONS)) == {"functions:one:merge", "functions:two:merge"}
    assert {path: reason for path, (reason, _) in reasons(root, FUNCTIONS).items()} == {
        "four.py": "no_entrypoint",
        "one.py": "no_docstring",
        "three.py": "syntax_error",
        "two.py": "no_entrypoint",
    }


def test_only_the_function_that_cannot_be_described_is_left_out(tree):
    root = tree({"pdf.py": "def bad():\n    'Half \\ud800.'\n" + MERGE})

    assert {str(it.id) for it in scan(root, layouts=[FUNCTIONS]).records} == {"functions:pdf:merge"}
    reason, detail = reasons(root, FUNCTIONS)["pdf.py"]
    assert reason == "surrogate"
    assert detail.startswith("bad() is left out: ")


def test_a_packages_tools_are_the_functions_of_its_init(tree):
    root = tree({"pdf/__init__.py": f"'Documents.'\n__all__ = ['merge']\n{MERGE}{ROTATE}"})

    assert found(root, PACKAGES) == {"packages:pdf:merge": "merge"}
    assert scan(root, layouts=[PACKAGES]).categories == {"packages:pdf": "Documents."}
    record = read_tool("pdf/__init__.py", root, name="merge", layouts=[PACKAGES])
    assert "from pdf import merge" in toolscan.stub(record)


@pytest.mark.parametrize("origin", [".", "office.pdf."])
def test_a_packages_tools_include_exports_from_its_own_modules(tree, origin):
    layout = Layout("lib", "office/{category}/__init__.py")
    lines = [
        f"from {origin}_turning import rotate",
        f"from {origin}gone import split",
        "from elsewhere import join",
        "__all__ = ['join', 'merge', 'rotate', 'split']",
    ]
    turning = "class By(Enum):\n    LEFT = 'left'\n" + ROTATE.replace("int = 90", "By")
    root = tree(
        {
            "office/pdf/__init__.py": "\n".join([*lines, MERGE]),
            "office/pdf/_turning.py": f"from enum import Enum\n{turning}",
        }
    )

    assert found(root, layout) == {"lib:pdf:merge": "merge", "lib:pdf:rotate": "rotate"}
    assert "not functions here: join, split" in reasons(root, layout)["office/pdf/__init__.py"][1]
    record = read_tool("office/pdf/__init__.py", root, name="rotate", layouts=[layout])
    assert record.description == "Turn the pages."
    assert toolscan.input_schema(record)["$defs"]["By"]["enum"] == ["left"]
    assert "from office.pdf._turning import rotate" in toolscan.stub(record)
    tree({"office/pdf/_turning.py": f"from enum import Enum\n{turning}# edited\n"})
    edited = read_tool("office/pdf/__init__.py", root, name="rotate", layouts=[layout])
    assert (record.stamp, edited.stamp) == (None, None)
    assert edited.file_hash != record.file_hash


def test_layouts_are_searched_side_by_side(tree):
    root = tree(
        {"pdf.py": MERGE, "pdf/merge.py": MERGE, "mcptools/pdf/merge.py": "def run(): 'D.'"}
    )

    assert set(found(root, *LAYOUTS.values())) == {
        "functions:pdf:merge",
        "mcptools:pdf:merge",
        "modules:pdf:merge",
    }


def test_reading_a_removed_function_is_an_error(tree):
    root = tree({"pdf.py": MERGE})

    with pytest.raises(toolscan.ToolScanError, match=r"a tool rotate\(\)"):
        read_tool("pdf.py", root, name="rotate", layouts=[FUNCTIONS])


def test_a_custom_pattern_can_match_several_tools_in_a_file(tree):
    root = tree({"lib/pdf/tools.py": MERGE + ROTATE})

    layout = Layout("lib", "lib/{category}/tools.py")

    assert set(found(root, layout)) == {"lib:pdf:merge", "lib:pdf:rotate"}
    assert layout.match("lib/pdf/tools.py") is None
