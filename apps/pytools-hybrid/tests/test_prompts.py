"""The workflow in a system prompt."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytools_hybrid import SettingsError
from pytools_hybrid.serve.prompts import render, workflow

MODES = ("hybrid", "basic")
FIELD = "{tool_discovery_workflow}"
# Text that templates may contain between placeholders.
PIECES = st.sampled_from([FIELD, "{working_dir}", "{{", "}}", "text", "\n", "%s", "\\1", "\\g<0>"])


@pytest.mark.parametrize("mode", MODES)
def test_a_workflow_names_exactly_the_tools_of_its_mode(mode):
    tools = {
        "hybrid": {"search_tools", "describe_tool", "report_outcome"},
        "basic": {"list_categories", "list_tools"},
    }

    assert set(re.findall(r"`(\w+_\w+)`", workflow(mode))) == tools[mode]


@pytest.mark.parametrize("mode", MODES)
def test_a_workflow_has_no_braces(mode):
    assert not set("{}") & set(workflow(mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_workflow_is_short(mode):
    assert len(workflow(mode).split()) < 140


def test_unbalanced_braces_in_a_template_are_kept():
    template = f'{{"json": {{}}}} {FIELD} }} {{ {{unclosed'

    assert render(template, "basic") == template.replace(FIELD, workflow("basic"))


def test_an_escaped_placeholder_is_not_replaced():
    with pytest.raises(SettingsError, match=r"--template: it has no {tool_discovery_workflow}"):
        render("Write {{tool_discovery_workflow}} into your template.", "hybrid")


def test_an_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match="'vector' is not one of hybrid, call, basic"):
        render(FIELD, "vector")  # type: ignore[arg-type]


@given(st.lists(PIECES, max_size=12).map(lambda pieces: "".join([*pieces, FIELD])))
@example(f"{{{{{FIELD}}}}}")
def test_rendering_before_formatting_equals_formatting_with_the_workflow(template):
    values = {"working_dir": "here"}
    expected = template.format(tool_discovery_workflow=workflow("hybrid"), **values)

    assert render(template, "hybrid").format(**values) == expected
