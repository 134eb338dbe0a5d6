"""The policy: `Settings.policy` restricts every search, in addition to its own filter."""

from __future__ import annotations

from dataclasses import replace

from toolindex import FilterError, ToolFilter


def under_policy(policy: ToolFilter, where: ToolFilter | None) -> ToolFilter:
    """Combine the policy with a caller's filter: tools have to pass both.

    Raises:
        FilterError: Both have patterns to include.
    """
    if where is None or where == ToolFilter():
        return policy
    if where.include and policy.include:
        raise FilterError("include", "is already set; only exclude can be given")
    return replace(
        where,
        include=where.include or policy.include,
        exclude={*where.exclude, *policy.exclude},
    )
