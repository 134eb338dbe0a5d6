"""The policy: `Settings.policy` restricts every search, whatever its own filter says."""

from __future__ import annotations

from dataclasses import replace

from toolindex import FilterError, ToolFilter


def under_policy(policy: ToolFilter, where: ToolFilter | None) -> ToolFilter:
    """Return a filter that passes what both the policy and a caller's filter pass.

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
