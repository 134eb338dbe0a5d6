"""Instructions on finding tools, for an agent's system prompt."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["WorkflowMode", "section", "workflow"]

WorkflowMode: TypeAlias = Literal["hybrid", "call", "basic"]

_SECTION = """\
## Finding tools

Tools are Python modules that your code imports. Call `run_parsed` where a module has it, \
otherwise `run`.
"""
# The workflows have no braces, because a prompt may later be passed to str.format.
_WORKFLOWS: dict[WorkflowMode, str] = {
    "hybrid": """\
1. Before you write code of your own, look for a tool: call `search_tools` with one need in a few \
plain words, an action and its object, such as "open an issue on github".
2. For a task of several steps, make one search for each step, all of them in parallel.
3. Check that a result does what you need. If none does, search once more in other words; then \
write your own code.
4. Before you use a tool, read its source at `path`, or call `describe_tool` with its `id`.
5. If a tool of `gentools` and one of `mcptools` both fit, prefer `gentools`.
6. After you have used a tool, call `report_outcome` with its `id` and whether it worked.""",
    "call": """\
1. When a task needs something that you have no tool for, look for one: call `search_tools` with \
one need in a few plain words, an action and its object, such as "open an issue on github".
2. For a task of several steps, make one search for each step, all of them in parallel.
3. Check that a result does what you need. If none does, search once more in other words.
4. Call it: `call_tool` with its `id`, and the `arguments` that its `input` or `input_schema` \
describes. Where an input is cut, call `describe_tool` first.
5. If a call says that its arguments do not fit, fix them as it says and call again.""",
    "basic": """\
1. Before you write code of your own, look for a tool: call `list_categories`, then `list_tools` \
once with all categories that may help.
2. Choose by name, and read the source at the path of a tool before you use it.
3. If a tool of `gentools` and one of `mcptools` both fit, prefer `gentools`.
4. If none fits, write your own code.""",
}


def workflow(mode: WorkflowMode) -> str:
    """Return the steps by which an agent finds a tool.

    Args:
        mode: `hybrid` for an agent that has `search_tools` and runs code, `call` for one that
            has `call_tool`, `basic` for one that has `list_categories` and `list_tools`.
    """
    return _WORKFLOWS[mode]


def section(mode: WorkflowMode) -> str:
    """Return a section of a system prompt with the workflow of a mode."""
    return f"{_SECTION}\n{workflow(mode)}\n"
