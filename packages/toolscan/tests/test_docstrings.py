"""Reading docstrings."""

# ruff: noqa: E501  (modules in one string each)
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolscan.docstrings import Docstring

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
        # epydoc, Doxygen, JSDoc
        "Do it.\n\n@param a: The\n    first.\n@type a: str\n@keyword b: The second.\n@return: c",
        "Do it.\n\n\\param a The first.\n\\param[in] b The second.\n\\return c",
        "Do it.\n\n@param {string} a - The first.\n@param {number} [b] The second.\n@returns {c} d",
        # Markdown
        "# Do it\n\n## Arguments\n\n- `a`: The first.\n- `b` (str): The second.\n\n## Returns\n- b: No.",
        "Do it.\n\n### Parameters:\n\n* **a** (*str*): The first.\n* **b** (`int`, optional) - The second.",
        "Do it.\n\n**Parameters**\n\n- a -- The first.\n- b — The second.\n\nMore.",
        "Do it.\n\n## Inputs\na: The first.\nb: The second.\n\n# End\nb: No.",
        "Do it.\n\n## Options\n1. `a`\n   The first.\n2. `b` (int)\n   The second.",
        "Do it.\n\n| Parameter | Type | Description |\n|---|:-:|---|\n| `a` | str | The first. |\n| **b** | int | The second. |\n",
        "Do it.\n\n## Arguments\n\nName | Description\n--- | ---\na | The first.\nb | The second.\n\nMore | more.",
        # Lists
        "Do it.\n\nArguments:\n* a - The first.\n* b - The second.\nReturns:\n* b - No.",
        "Do it.\n\n**Arguments:**\n- a: The\nfirst.\n- b: The second.\n**Example:** More.",
        "Do it.\n\nOptions:\n    a -- The first.\n    b -- The second.\n",
        "Do it.\n\nKeyword Args:\n\ta [str]: The first.\n\tb {x, y} = The second.",
        "Do it.\n\nTakes the following arguments:\n - 'a' => The first.\n - \"b\" => The second.",
        "Do it.\nParameters:\na: The first.\nb: The second.\n\nb: No.",
        "Do it.\n\nArgs (all of them):\n    a str: The first.\n    b (dict[str, int], default: {}): The second.",
        "Do it.\n\nArgs: a: The first.\nOptions: b - The second.",
        "  Do it.\n\n  Args:\n  - a: The first.\n  - b: The second.\n\n  Returns:\n    b: No.",
        # NumPy, with what people make of it
        "Do it.\n\nParameters\n==========\na : str\n    The first.\nb\n    The second.\n\nReturns\n=======\nb : No.",
        "Do it.\n\nParameters\n----------\na: The first.\nb: The second.",
        "Do it.\n\nParameters\n----------\n- a (str): The first.\n- b (int): The second.",
    ],
)
def test_sections_are_read_as_people_write_them(text, tool):
    record = tool(f"def run(a, b):\n    {text!r}\n")
    assert [it.description for it in record.parameters] == ["The first.", "The second."]


def test_parameters_may_share_a_description(tool):
    numpy = "Do it.\n\nParameters\n----------\na, b : int\n    Both."
    for text in (numpy, "Do it.\n\nArgs:\n    `a`, `b` (int): Both."):
        record = tool(f"def run(a, b):\n    {text!r}\n")
        assert [it.description for it in record.parameters] == ["Both.", "Both."]


def test_a_type_alone_describes_nothing(tool):
    text = "Do it.\n\nParameters\n----------\na : array_like of int\nb : Sequence\n"
    record = tool(f"def run(a, b):\n    {text!r}\n")
    assert [it.description for it in record.parameters] == ["", ""]


def test_hostile_docstrings_are_read_in_time(tool):
    began = time.process_time()
    for piece in (
        "_",
        "#",
        " ",
        "*",
        "`",
        "(",
        "a, ",
        "|-",
        "@param ",
        ":a ",
        "[(",
        "Args:\n",
        "-",
    ):
        text = f"Do it.\n\nArgs:\n    a{piece * (90_000 // len(piece))}\n"
        assert len(tool(f"def run(a):\n    {text!r}\n").parameters) == 1
    assert time.process_time() - began < 60


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


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ("Make a ticket.", ()),
        ("An example is in the manual.", ()),
        (
            "Make a ticket.\n\nExample:\n    run(title='x')\n\nReturns:\n    Its id.",
            ("run(title='x')",),
        ),
        ("Examples:\n    one()\n    two()\n\n    three()", ("one()\ntwo()", "three()")),
        ("Make it.\n\nExample: run(1)\nMore words.", ("run(1)",)),
        ("Examples\n--------\n>>> run(1)\n2\n\nReturns\n-------\nint", (">>> run(1)\n2",)),
        (
            "## Examples\n\n```python\nrun(1)\n\nrun(2)\n```\n\n## Notes\nNone.",
            ("run(1)\n\nrun(2)",),
        ),
        ("**Example:**\nrun(1)", ("run(1)",)),
        ("Add.\n\n>>> run(1)\n2\n\nIt adds.", (">>> run(1)\n2",)),
        ("Examples:\n    run(1)\n\n>>> run(1)", ("run(1)", ">>> run(1)")),
        ("Examples:", ()),
        ("", ()),
    ],
)
def test_sections_and_doctests_are_examples(text, examples):
    assert Docstring(text).examples == examples


def test_at_most_ten_examples_of_two_thousand_characters_are_returned():
    text = "Examples:\n" + "\n".join(f"    run({number})\n" for number in range(30))

    assert len(Docstring(text).examples) == 10
    assert len(Docstring("Example:\n    " + "x" * 5000).examples[0]) == 2000


@given(st.text(alphabet="Example:s `>-#\n\t(1)abc*", max_size=300) | st.text())
def test_examples_of_any_text_are_parts_of_it(text):
    for example in Docstring(text).examples:
        assert example
        assert all(line.strip() in text for line in example.split("\n"))
