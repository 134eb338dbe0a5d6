"""Instructions on finding tools, for an agent's system prompt."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from pytools_hybrid.errors import SettingsError

__all__ = ["DEFAULT_TEMPLATE", "WorkflowMode", "render", "workflow"]

WorkflowMode: TypeAlias = Literal["hybrid", "call", "basic"]

DEFAULT_TEMPLATE = """\
## Finding tools

Tools are Python modules that your code imports. Call `run_parsed` where a module has it, \
otherwise `run`.

{tool_discovery_workflow}
"""
"""A section of a system prompt, as the default template."""

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
_PLACEHOLDER = "{tool_discovery_workflow}"
# In str.format, "{{" and "}}" stand for single braces; they are skipped.
_FIELD = re.compile(r"\{\{|\}\}|" + re.escape(_PLACEHOLDER))


def workflow(mode: WorkflowMode) -> str:
    """Return the steps by which an agent finds a tool.

    Args:
        mode: `hybrid` for an agent that has `search_tools` and runs code, `call` for one that
            has `call_tool`, `basic` for one that has `list_categories` and `list_tools`.

    Raises:
        SettingsError: There is no such mode.
    """
    if mode not in _WORKFLOWS:
        raise SettingsError("--mode", f"{mode!r} is not one of {', '.join(_WORKFLOWS)}")
    return _WORKFLOWS[mode]


def render(template: str, mode: WorkflowMode) -> str:
    """Insert the workflow of a mode into a template, at each `{tool_discovery_workflow}`.

    All other braces are kept, and the workflow has none, so that the result can be passed to
    `str.format` and still prints the same braces.

    Args:
        template: Any text with the placeholder.
        mode: As for `workflow`.

    Raises:
        SettingsError: The template lacks the placeholder, or there is no such mode.
    """
    text = workflow(mode)
    filled = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal filled
        if match[0] != _PLACEHOLDER:
            return match[0]
        filled += 1
        return text

    rendered = _FIELD.sub(fill, template)
    if not filled:
        raise SettingsError(
            "--template", f"it has no {_PLACEHOLDER}; write that where the workflow should be"
        )
    return rendered
