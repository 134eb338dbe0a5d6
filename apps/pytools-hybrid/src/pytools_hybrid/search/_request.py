"""Checking a search request, and restricting it by the policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from toolindex import ArgumentError, ToolFilter

from pytools_hybrid.search._types import Scope, SearchMode, SearchRequest, cut_query
from pytools_hybrid.settings import MAX_LIMIT

if TYPE_CHECKING:
    from pytools_hybrid.settings import Settings

_ANY = ToolFilter()


def search_request(
    settings: Settings, asked: SearchRequest, scope: Scope = Scope.ALL
) -> SearchRequest:
    """Return a request in a scope, restricted by the policy of the settings.

    Raises:
        ValueError: A value is out of range or of another type, which not all callers check.
        ArgumentError: The filter and the policy both have patterns to include.
    """
    _check(asked.text, asked.limit, asked.min_confidence)
    where = under_policy(settings.policy, asked.where)
    if Scope(scope) is not Scope.ALL:
        where = replace(where, source=Scope(scope).value)
    return replace(asked, text=cut_query(asked.text), mode=SearchMode(asked.mode), where=where)


def _check(query: object, limit: object, threshold: object) -> None:
    if not isinstance(query, str):
        raise ValueError(f"the query must be text, got {query!r}")
    if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit must be a whole number from 1 to {MAX_LIMIT}, got {limit!r}")
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be a number from 0 to 1, got {threshold!r}")


def under_policy(policy: ToolFilter, where: ToolFilter | None) -> ToolFilter:
    """Combine `Settings.policy` with a caller's filter: tools have to pass both.

    Raises:
        ArgumentError: Both have patterns to include.
    """
    if where is None or where == _ANY:
        return policy
    if where.include and policy.include:
        raise ArgumentError("include", "is already set; only exclude can be given")
    return replace(
        where,
        include=where.include or policy.include,
        exclude={*where.exclude, *policy.exclude},
    )
