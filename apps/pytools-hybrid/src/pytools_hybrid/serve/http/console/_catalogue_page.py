"""The catalogue: categories with their tools, and files left out of the index, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from toolindex import ToolFilter

from pytools_hybrid.search import Scope, check_categories
from pytools_hybrid.serve.http._parameters import Names, Query, read_query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from toolscan import ScanIssue

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.http._searches import Searches

_ON_A_PAGE = 200
_SHOWN_ISSUES = 100
_TITLES = {"mcptools": "Tools of MCP servers", "gentools": "Tools that agents wrote"}


class _Asked(Query):
    category: Names | None = None
    scope: Scope = Scope.ALL
    page: Annotated[int, Field(ge=1, le=100_000)] = 1


async def catalogue_page(
    request: Request, search: ToolSearch, searches: Searches
) -> Mapping[str, Any]:
    """Return the values of the catalogue: all categories, or the tools of some.

    Raises:
        ProblemError: The query of the page is invalid.
        UnknownCategoryError: A requested category does not exist.
        DatabaseError: The index cannot be read.
    """
    asked = read_query(_Asked, request, skip_empty=True)
    async with searches.turn():
        categories = await search.categories()
        listed: Sequence[Any] = categories
        if asked.category:
            check_categories(asked.category, {it.category for it in categories})
            source = None if asked.scope is Scope.ALL else asked.scope.value
            listed = await search.entries(ToolFilter(categories=asked.category, source=source))
    issues = left_out(search)
    first = _ON_A_PAGE * (asked.page - 1)
    return {
        "category": ", ".join(asked.category or ()),
        "scope": asked.scope.value,
        "titles": _TITLES,
        "page": asked.page,
        "pages": max(-(-len(listed) // _ON_A_PAGE), 1),
        "tools": len(listed) if asked.category else sum(it.tools for it in categories),
        "listed": listed[first : first + _ON_A_PAGE],
        "issues": [(search.roots.shown(it.path), it.detail) for it in issues[:_SHOWN_ISSUES]],
        "more_issues": len(issues[_SHOWN_ISSUES:]),
    }


def left_out(search: ToolSearch) -> list[ScanIssue]:
    """Return the files that were left out; none if the policy hides any tools."""
    if search.policy != ToolFilter():
        # The policy hides tools by id, which a file that is not a tool does not have.
        return []
    return [it for it in search.index.sync.left_out if it.reason != "private"]
