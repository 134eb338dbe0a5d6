"""The workflow in a system prompt."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytools_hybrid import SettingsError
from pytools_hybrid.serve.prompts import render, workflow

MODES = ("hybrid", "basic")
FIELD = "{tool_discovery_workflow}"
# What templates have between the placeholders.
PIECES = st.sampled_from([FIELD, "{working_dir}", "{{", "}}", "text", "\n", "%s", "\\1", "\\g<0>"])


@pytest.mark.parametrize("mode", MODES)
def test_the_workflow_names_the_tools_that_the_mode_has_and_no_others(mode):
    tools = {
        "hybrid": {"search_tools", "describe_tool", "report_outcome"},
        "basic": {"list_categories", "list_tools"},
    }

    assert set(re.findall(r"`(\w+_\w+)`", workflow(mode))) == tools[mode]


@pytest.mark.parametrize("mode", MODES)
def test_the_workflow_has_no_braces_that_a_later_format_would_take_for_fields(mode):
    assert not set("{}") & set(workflow(mode))


@pytest.mark.parametrize("mode", MODES)
def test_the_workflow_is_short(mode):
    assert len(workflow(mode).split()) < 140


def test_braces_that_no_format_could_read_stay_too():
    template = f'{{"json": {{}}}} {FIELD} }} {{ {{unclosed'

    assert render(template, "basic") == template.replace(FIELD, workflow("basic"))


def test_an_escaped_placeholder_is_no_placeholder():
    with pytest.raises(SettingsError, match=r"--template: it has no {tool_discovery_workflow}"):
        render("Write {{tool_discovery_workflow}} into your template.", "hybrid")


def test_an_unknown_mode_is_refused_with_those_there_are():
    with pytest.raises(SettingsError, match="'vector' is none; use one of hybrid, call, basic"):
        render(FIELD, "vector")  # type: ignore[arg-type]


@given(st.lists(PIECES, max_size=12).map(lambda pieces: "".join([*pieces, FIELD])))
@example(f"{{{{{FIELD}}}}}")
def test_rendering_and_formatting_gives_what_formatting_with_the_workflow_gives(template):
    values = {"working_dir": "here"}
    expected = template.format(tool_discovery_workflow=workflow("hybrid"), **values)

    assert render(template, "hybrid").format(**values) == expected
