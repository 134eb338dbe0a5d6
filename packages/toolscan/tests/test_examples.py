"""Which parts of a docstring count as examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolscan.docstrings import Docstring


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
