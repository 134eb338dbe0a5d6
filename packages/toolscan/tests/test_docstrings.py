"""Reading docstrings."""

# ruff: noqa: E501  (modules in one string each)
import subprocess
import sys
import time

import pytest

from .conftest import PATIENCE

GOOGLE = """Does it.

    Args:
        a: The first.
        b (int, optional): The second,
            on two lines.
        *args: The rest.

    Keyword Args:
        c: The third.

    Returns:
        Nothing.
    """
NUMPY = """Does it.

    Parameters
    ----------
    a : int
        The first.
    b : int, optional
        The second,
        on two lines.
    *args
        The rest.

    Other Parameters
    ----------------
    c : str
        The third.
    """
SPHINX = """Does it.

    :param a: The first.
    :param int b: The second,
        on two lines.
    :param args: The rest.
    :keyword c: The third.
    :returns: Nothing.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_args_section_describes_the_parameters(text, tool):
    record = tool(f'def run(a, b=1, *args, c=2):\n    """{text}"""\n')
    assert {it.name: it.description for it in record.parameters} == {
        "a": "The first.",
        "b": "The second, on two lines.",
        "*args": "The rest.",
        "c": "The third.",
    }
    assert record.summary == "Does it."


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("Does it. And more.", "Does it."),
        ("Does it\nand that.\n\nMore.", "Does it and that."),
        ("Reads files, e.g. PDFs. Then stops.", "Reads files, e.g. PDFs."),
        ("Uses version 3.11 now. Then stops.", "Uses version 3.11 now."),
        ("No full stop", "No full stop"),
        ("読む。書く。", "読む。"),
        ("What? Yes.", "What?"),
        ("Args:\n    a: The first.", "Args: a: The first."),
        ("Does it\nArgs:\n    a: The first.", "Does it"),
        ("e.g. X", "e.g. X"),
    ],
)
def test_the_summary_is_the_first_sentence(text, summary, tool):
    assert tool(f"def run():\n    {text!r}\n").summary == summary


def test_a_very_long_summary_is_truncated(tool):
    summary = tool(f"def run():\n    {'word ' * 100_000!r}\n").summary
    assert len(summary) == 1_000
    assert summary.endswith("…")


def test_a_section_far_into_a_very_long_description_is_not_read(tool):
    text = "Does it.\n\nArgs:\n    a: The first.\n\n" + "word\n" * 15_000
    source = f"def run(a):\n    {text!r}\ndef run_parsed(a):\n    {text[:-9]!r}'and more'\n"
    assert tool(source).parameters[0].description == ""


@pytest.mark.parametrize("line", ["\t" * 1_000 + "x\n", "\n", "é\n"])
def test_only_the_beginning_of_a_very_long_docstring_is_read(line, tool):
    text = "Does it.\n" + line * (1_800_000 // len(line.encode()))
    began = time.process_time()
    record = tool(f'def run(a):\n    """{text}"""\n')
    # It takes a tenth of a second, or minutes if the whole text is read.
    assert time.process_time() - began < 60
    assert len(record.description) <= 100_000
    assert record.description.startswith("Does it.")


@pytest.mark.parametrize(
    ("source", "tags", "use_cases"),
    [
        ("__tags__ = ['x', 'y', 'x']\ndef run():\n    'D.'\n", ("x", "y"), ()),
        ("__tags__ = 'x'\n__use_cases__ = ('a b', 3)\ndef run():\n    'D.'\n", ("x",), ("a b",)),
        ("__tags__ = 'a, b,'\n__use_cases__ = 'do, then'\ndef run():\n    'D.'\n", ("a", "b"), ("do, then",)),
        ("def run():\n    '''D.\n\n    Args:\n        Tags: the tags\n        use cases: x\n    '''\n", (), ()),
        ("def run():\n    '''D.\n\n    tags: list of tags, comma separated\n    '''\n", (), ()),
        ("def run():\n    '''D.\n\n    Tags:\n\n        x, y\n\n    More.\n    '''\n", ("x", "y"), ()),
        ("def run():\n    '''D.\n\n    Tags:\n\n    Use Cases:\n    - one\n      more\n    - two\n    three\n    '''\n", (), ("one more", "two")),
        ("__tags__ = make()\ndef run():\n    'D.'\n", (), ()),
        ("from x import __tags__\ndef run():\n    'D.'\n", (), ()),
        ("def run():\n    'D.\\n\\nTags: x, y z'\n", ("x", "y z"), ()),
        ("def run():\n    '''D.\n\n    Tags:\n        - x\n        * y, z\n    '''\n", ("x", "y, z"), ()),
        ("'''M.\n\nTags:\n  x,\n  y\n\nUse cases:\n- one, two\n- three\n'''\ndef run():\n    'D.'\n",
         ("x", "y"), ("one, two", "three")),
        ("def run():\n    '''D.\n\n    Use cases:\n        when needed\n    '''\n", (), ("when needed",)),
    ],
)  # fmt: skip
def test_tags_and_use_cases_are_read_where_the_module_declares_them(source, tags, use_cases, tool):
    record = tool(source)
    assert record.tags == tags
    assert record.use_cases == use_cases


def test_use_cases_that_the_docstring_lacks_are_added_to_the_description(tool):
    module = '"""M.\n\nUse cases:\n- paint a wall\n- paint\n  a door\n"""\n'
    record = tool(f"{module}def run():\n    'Paint. For who wants to paint a wall.'\n")
    assert record.description == "Paint. For who wants to paint a wall.\n\nUse cases: paint a door"
    assert record.summary == "Paint."


def test_the_section_parser_is_imported_only_for_docstrings_with_sections(tmp_path):
    (tmp_path / "mcptools" / "c").mkdir(parents=True)
    (tmp_path / "mcptools" / "c" / "t.py").write_text("def run(a):\n    'Does it.'\n")
    code = f"import sys, toolscan; toolscan.scan({str(tmp_path)!r}); print('griffe' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert shown.stdout == "False\n"


@pytest.mark.parametrize(
    "text",
    [
        "Do a thing.\nArgs:\n  a: The first.\n  b: The second.",
        "Do it.\n\nReturns:\n z\nArgs:\n    a: The first.\n    b: The second.\nRaises:\n    c: d",
        "Do it.\n\nArguments:\n\n    a: The first.\n    b: The second.",
        "Do it.\n\nArgs :\n    a : The first.\n    b (int) : The second.",
        "Do it.\n\nArgs:\n    - a: The first.\n    * b: The\n      second.",
        "Do it.\n\nParameters:\n- a: The first.\n- b: The\n  second.",
        "Do it.\n\nArgs:\n    `a`: The first.\n    **b**: The second.",
        "Do it.\n\n**Args:**\n    - **a:** The first.\n    - ``b`` (int): The second.",
        "Do it.\n\nArgs:\n\n    - a: The first.\n\n    - b: The second.\n\n  Ended : here.\n",
        "Do it.\n\n**Args**:\n    a: The first.\n\n:param b: The second.\n\nNot of b.",
        "Do it.\n\n:param a: The first.\n\nArgs:\n    b: The second.",
        "Do it.\n\n```\nArgs:\n    a: No.\n```\n\nArgs:\n    a: The first.\n    b: The second.",
    ],
)
def test_sections_are_read_as_people_write_them(text, tool):
    record = tool(f"def run(a, b):\n    {text!r}\n")
    assert [it.description for it in record.parameters] == ["The first.", "The second."]


@pytest.mark.parametrize(
    "text", ["Do it.\n\nArgs:", "Do it.\n\nArgs:\nNone.", "Do it.\n\nAttributes:\n    a: No."]
)
def test_a_bare_title_and_attributes_of_no_class_describe_nothing(text, tool):
    assert tool(f"def run(a):\n    {text!r}\n").parameters[0].description == ""


def test_the_sections_of_both_docstrings_are_read_in_any_style(tool):
    google = "Do it.\n\nArgs:\n    a: The first."
    sphinx = "Do more.\n\n:param b: The second.\n:param a: Not this."
    for first, second in ((google, sphinx.replace("Not this", "The first")), (sphinx, google)):
        record = tool(f"def run_parsed(a, b):\n    {first!r}\ndef run(a, b):\n    {second!r}\n")
        assert record.parameters[1].description == "The second."
        assert record.parameters[0].description in ("The first.", "Not this.")


def test_text_after_a_parameter_name_is_unchanged(tool):
    text = "Do it.\n\nArgs:\n    a: A `b` : c,\n        - d : e\n        `f`: g"
    record = tool(f"def run(a):\n    {text!r}\n")
    assert record.parameters[0].description == "A `b` : c, - d : e `f`: g"
