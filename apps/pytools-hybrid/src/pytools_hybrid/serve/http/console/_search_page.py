"""The search page: the form, and what an agent would get for the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolindex import ToolFilter

from pytools_hybrid.search import Scope, SearchMode, breakdown, channel_shares, reason
from pytools_hybrid.serve.http._parameters import Names, Query, Results, Share, Words, read_query
from pytools_hybrid.serve.http._problems import problem_of
from pytools_hybrid.serve.http.console._code import calling_code
from pytools_hybrid.serve.http.console._values import highlighted, stacked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from pytools_hybrid.search import FoundTool, ToolSearch
    from pytools_hybrid.serve.http._searches import Searches
    from pytools_hybrid.settings import Settings

_UNKNOWN = 500
# search.js sends this header with requests that are still being typed.
_TYPING = "pytools-typing"
# A tree may have thousands of categories, and the page should stay small.
_OFFERED_CATEGORIES = 300
_CHANNELS = {"bm25": "words", "vector": "meaning", "fuzzy": "spelling"}
_MODES = {
    SearchMode.HYBRID: "words and meaning",
    SearchMode.BM25: "words",
    SearchMode.VECTOR: "meaning",
    SearchMode.FUZZY: "spelling",
}
_SCOPES = {Scope.ALL: "all", Scope.MCPTOOLS: "MCP servers' tools", Scope.GENTOOLS: "agents' own"}

_USUAL = {"mode": "hybrid", "scope": "all"}


class Asked(Query):
    """The parameters of a search, where empty fields of the form count as missing."""

    q: Words = ""
    mode: SearchMode = SearchMode.HYBRID
    scope: Scope = Scope.ALL
    category: Names | None = None
    tags: Names | None = None
    threshold: Share | None = None
    limit: Results | None = None

    def how(self) -> dict[str, Any]:
        """Return the arguments of a search other than the request."""
        return {
            "mode": self.mode,
            "scope": self.scope,
            "where": ToolFilter(categories=self.category or (), tags=self.tags or ()),
            "limit": self.limit,
            "threshold": self.threshold,
        }


def wanted(request: Request) -> dict[str, str]:
    """Return the parameters of a search that differ from the defaults, as they were typed."""
    given = {name: request.query_params.get(name, "") for name in Asked.model_fields}
    return {name: value for name, value in given.items() if value not in {"", _USUAL.get(name)}}


async def search_page(
    request: Request, search: ToolSearch, searches: Searches
) -> Mapping[str, Any]:
    """Return the values of the search page.

    Raises:
        DatabaseError: The index cannot be read.
    """
    state = await search.index.state()
    categories = await search.categories()
    values: dict[str, Any] = {
        # As typed, even if the request is invalid.
        "form": dict.fromkeys(Asked.model_fields, "") | _USUAL | wanted(request),
        "wanted": wanted(request),
        "modes": _MODES,
        "scopes": _SCOPES,
        "categories": sorted({it.category for it in categories})[:_OFFERED_CATEGORIES],
        "settings": search.settings,
        "tools": sum(it.tools for it in categories),
        "coverage": state.coverage,
        "query": "",
        "results": [],
        "notes": (),
        "milliseconds": 0.0,
        "problem": None,
    }
    try:
        asked = read_query(Asked, request, skip_empty=True)
        if not asked.q.strip():
            return values
        response, milliseconds = await searches.found(
            request,
            asked.q,
            record=_TYPING not in request.headers,
            **asked.how(),
        )
    except Exception as error:
        # The page still has the form, so that the request can be corrected.
        problem = problem_of(request, error)
        if problem.status == _UNKNOWN:
            raise
        return values | {"problem": problem}
    terms = await search.terms(asked.q, [found.id for found in response.tools])
    results = [_result(found, terms.get(found.id, {}), search.settings) for found in response.tools]
    return values | {
        "query": asked.q,
        "results": results,
        "notes": response.notes,
        "milliseconds": milliseconds,
    }


def _result(found: FoundTool, terms: Mapping[str, float], settings: Settings) -> dict[str, Any]:
    channels = breakdown(found)
    bars = stacked(channel_shares(found, settings).values())
    return {
        "found": found,
        "name": highlighted(found.name, terms),
        "summary": highlighted(found.summary, terms),
        "reason": reason(found),
        "code": calling_code(found),
        "channels": [
            {"id": name, "name": _CHANNELS.get(name, name), "score": score, "bar": bar}
            for (name, score), bar in zip(channels.items(), bars, strict=True)
        ],
    }
