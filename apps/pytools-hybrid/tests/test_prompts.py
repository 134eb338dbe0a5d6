"""The workflow in a system prompt."""

import re

import pytest
from pytools_hybrid.serve.prompts import workflow

MODES = ("hybrid", "basic")


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
