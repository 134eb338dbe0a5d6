"""The pages: the search, the catalogue, a tool with its details and advice, and the usage."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import UTC, datetime
from keyword import iskeyword
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field
from toolindex import ToolFilter
from toolscan import ToolId

from pytools_hybrid.index import (
    FILE_NAME,
    CapabilitiesError,
    Capability,
    parse_capabilities,
    read_text,
)
from pytools_hybrid.reports.usage import outcome_days, usage_report
from pytools_hybrid.search import (
    DetailLevel,
    Scope,
    SearchMode,
    breakdown,
    channel_shares,
    check_categories,
    module_name,
    reason,
)
from pytools_hybrid.serve.http._api import (
    Names,
    Parameters,
    read_query,
    search_arguments,
    search_parameters,
)
from pytools_hybrid.serve.http._problems import problem_of
from pytools_hybrid.serve.http.console._drawing import (
    Plot,
    bar_plot,
    highlighted,
    last_days,
    latency_plot,
    midnight,
    query_links,
    stacked,
)
from pytools_hybrid.serve.operations import SEARCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from pydantic import JsonValue
    from starlette.requests import Request
    from toolindex import OutcomeRecord, SearchRecord, ToolEntry, ToolStore
    from toolscan import ScanIssue

    from pytools_hybrid.reports.usage import DayFigures, ToolFigures, UsageReport
    from pytools_hybrid.search import FoundTool, RankExplanation, SearchRequest, ToolSearch
    from pytools_hybrid.serve.operations import Service
    from pytools_hybrid.settings import Settings

_UNKNOWN = 500
# search.js sends this header with requests that are still being typed.
_TYPING = "pytools-typing"
# A tree may have thousands of categories, and the page should stay small.
_OFFERED_CATEGORIES = 300
_CHANNELS = {"bm25": "keywords", "vector": "meaning", "fuzzy": "spelling"}
_MODES = {
    SearchMode.HYBRID: "keywords and meaning",
    SearchMode.BM25: "keywords",
    SearchMode.VECTOR: "meaning",
    SearchMode.FUZZY: "spelling",
}
_SCOPES = {Scope.ALL: "all", Scope.MCPTOOLS: "MCP servers' tools", Scope.GENTOOLS: "agents' own"}

_DEFAULTS = {"mode": "hybrid", "scope": "all"}
_PERIODS = ("7", "30", "90")
_TOOL_DAYS = 30
_SHOWN_TOOLS = 15
# A record may contain 100,000 searches, which should not be read at every reload.
_REST = 20.0
_ON_A_PAGE = 200
_SHOWN_ISSUES = 100
_TITLES = {"mcptools": "Tools of MCP servers", "gentools": "Tools that agents wrote"}
# Some servers' schemas are very long.
_SHOWN_CHARACTERS = 20_000
_SHOWN_PARAMETERS = 100
# The character DEL, which is allowed in JSON strings but not in TOML.
_DELETE = "\x7f"
_FEWEST_WORDS = 3
_SHOWN_NAMES = 5
_WORD = re.compile(r"[^\W_]+")
_DEFINITION = re.compile(
    r"(?P<waits>async )?def (?P<name>\w+)\((?:(?P<only>\w+): (?P<type>\w+)\))?"
)


class SearchForm(
    search_parameters("q", "mode", "scope", "category", "tags", "threshold", "limit"),
):
    """The form of the search."""

    q: Annotated[str, Field(max_length=2_000)] = ""


class CatalogueForm(Parameters):
    """The form of the catalogue."""

    category: Names | None = None
    scope: Scope = Scope.ALL
    page: Annotated[int, Field(ge=1, le=100_000)] = 1


class UsageForm(Parameters):
    """The form of the usage."""

    days: Literal["7", "30", "90"] = "7"


def typed_parameters(request: Request) -> dict[str, str]:
    """Return the parameters of a search that differ from the defaults, as they were typed."""
    given = {name: request.query_params.get(name, "") for name in SearchForm.model_fields}
    return {name: value for name, value in given.items() if value not in {"", _DEFAULTS.get(name)}}


async def search_page(service: Service, request: Request) -> Mapping[str, Any]:
    """Return the values of the search page.

    Raises:
        DatabaseError: The index cannot be read.
    """
    search = service.search
    state = await search.index.state()
    categories = await search.categories()
    values: dict[str, Any] = {
        # As typed, even if the request is invalid.
        "form": dict.fromkeys(SearchForm.model_fields, "") | _DEFAULTS | typed_parameters(request),
        "typed": typed_parameters(request),
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
        arguments = search_arguments(read_query(SearchForm, request, is_form=True))
        if not arguments.query.strip():
            return values
        started = time.perf_counter()
        record = _TYPING not in request.headers
        response = await SEARCH.run(service, arguments, record=record)
        milliseconds = 1000 * (time.perf_counter() - started)
    except Exception as error:
        # The page still has the form, so that the request can be corrected.
        problem = problem_of(request, error)
        if problem.status == _UNKNOWN:
            raise
        return values | {"problem": problem}
    terms = await search.terms(arguments.query, [found.id for found in response.tools])
    results = [_result(found, terms.get(found.id, {}), search.settings) for found in response.tools]
    return values | {
        "query": arguments.query,
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


async def catalogue_page(service: Service, request: Request) -> Mapping[str, Any]:
    """Return the values of the catalogue: all categories, or the tools of some.

    Raises:
        ProblemError: The query of the page is invalid.
        UnknownCategoryError: A requested category does not exist.
        DatabaseError: The index cannot be read.
    """
    arguments = read_query(CatalogueForm, request, is_form=True)
    search = service.search
    await service.follower.wait_until_ready()
    categories = await search.categories()
    listed: Sequence[Any] = categories
    if arguments.category:
        check_categories(arguments.category, {it.category for it in categories})
        source = None if arguments.scope is Scope.ALL else arguments.scope.value
        listed = await search.entries(ToolFilter(categories=arguments.category, source=source))
    issues = left_out(search)
    first = _ON_A_PAGE * (arguments.page - 1)
    return {
        "category": ", ".join(arguments.category or ()),
        "scope": arguments.scope.value,
        "titles": _TITLES,
        "page": arguments.page,
        "pages": max(-(-len(listed) // _ON_A_PAGE), 1),
        "tools": len(listed) if arguments.category else sum(it.tools for it in categories),
        "listed": listed[first : first + _ON_A_PAGE],
        "issues": [
            (search.roots.display_path(it.path), it.detail) for it in issues[:_SHOWN_ISSUES]
        ],
        "more_issues": len(issues[_SHOWN_ISSUES:]),
    }


def left_out(search: ToolSearch) -> list[ScanIssue]:
    """Return the files that were left out; none if the policy hides any tools."""
    if search.policy != ToolFilter():
        # The policy hides tools by id, which a file that is not a tool does not have.
        return []
    return [it for it in search.index.sync.left_out if it.reason != "private"]


async def tool_page(service: Service, request: Request) -> Mapping[str, Any]:
    """Return the values of a tool's page.

    Raises:
        ProblemError: The query of the page is invalid.
        UnknownToolError: No tool has that name.
        AmbiguousToolError: Several tools have that name.
        DatabaseError: The index cannot be read.
    """
    arguments = search_arguments(read_query(SearchForm, request, is_form=True))
    search = service.search
    search_request = arguments.request(search.settings)
    await service.follower.wait_until_ready()
    entry = await search.find(request.path_params["id"])
    id_ = str(entry.id)
    tool = await search.describe(id_, DetailLevel.FULL)
    similar = await search.similar(id_)
    explanation = (
        await search.explain_rank(search_request, id_) if arguments.query.strip() else None
    )
    file = search.roots.resolve(entry.path)[0] / FILE_NAME
    refused = (await search.index.refused()).get(id_)
    return {
        **await _history(search, id_),
        "advice": [
            *([f"The model refuses its text, so it has no vector: {refused}"] if refused else []),
            *advice(entry, similar),
        ],
        "id": id_,
        "entry": entry,
        "tool": tool,
        "parameters": entry.parameters[:_SHOWN_PARAMETERS],
        "left_out": len(entry.parameters[_SHOWN_PARAMETERS:]),
        "description": _cut(tool.description or entry.description),
        "stub": _cut(tool.stub or ""),
        "schema": _json(tool.input_schema),
        "output_schema": _json(tool.output_schema),
        "changed": _changed(search, entry.path),
        "similar": similar,
        "query": arguments.query,
        "typed": typed_parameters(request),
        "explanation": explanation,
        "verdict": "" if explanation is None else verdict(explanation, search_request),
        "use_case": use_case(id_, arguments.query, file) if explanation is not None else None,
        "capabilities": str(file),
    }


def _changed(search: ToolSearch, path: str) -> str:
    root, below = search.roots.resolve(path)
    try:
        seconds = (root / below).stat().st_mtime
    except OSError:
        return "unknown: the file no longer exists"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _json(schema: Mapping[str, JsonValue] | None) -> str:
    return "" if schema is None else _cut(json.dumps(schema, ensure_ascii=False, indent=2))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}\n… (cut)"


def verdict(explanation: RankExplanation, request: SearchRequest) -> str:
    """Return a sentence on whether an agent that sends the request would see the tool."""
    if explanation.rank is None:
        return "No. The tool is not found."
    place = f"The tool has rank {explanation.rank} and a score of {explanation.score:.2f}"
    if explanation.rank > request.limit:
        return f"No. {place}, and an agent sees the first {request.limit}."
    # A threshold may hide a ranked tool; the reasons then mention it.
    return f"{place}." if request.min_confidence else f"Yes. {place}."


class UseCase(NamedTuple):
    """How `capabilities.toml` makes a request find a tool.

    Attributes:
        lines: The lines that the file must contain.
        is_there: Whether the file has a table for the tool, so that `lines` is one line of it.
        problem: Why the file is invalid and ignored; empty if it is valid.
    """

    lines: str
    is_there: bool
    problem: str = ""


def use_case(id_: str, query: str, file: Path) -> UseCase:
    """Return the use cases of a tool in the file, with the request added."""
    known: Capability | None = None
    problem = ""
    try:
        known = parse_capabilities(read_text(file), file).entries.get(id_)
    except CapabilitiesError as error:
        problem = str(error)
    cases = [*(known.use_cases if known is not None else ()), " ".join(query.split())]
    texts = ", ".join(json.dumps(it, ensure_ascii=False) for it in dict.fromkeys(cases))
    header = f"[{json.dumps(id_, ensure_ascii=False)}]\n" if known is None else ""
    lines = f"{header}use_cases = [{texts}]".replace(_DELETE, "")
    return UseCase(lines, known is not None, problem)


def advice(entry: ToolEntry, similar: Iterable[FoundTool]) -> list[str]:
    """Return sentences on what would make a tool easier to find; none if all is well.

    Args:
        entry: The tool.
        similar: Similar tools.
    """
    found: list[str] = []
    name = _words(" ".join(ToolId.words_of(entry.id.name)))
    # A file without any docstring is not a tool; the catalogue lists it as left out.
    if len(_words(entry.description) - name) < _FEWEST_WORDS:
        found.append(
            "Its docstring says little more than its name: write what it does, to what, and when "
            "to use it."
        )
    summary = entry.summary.casefold()
    if summary and (same := [it.id for it in similar if it.summary.casefold() == summary]):
        found.append(f"Its summary is the same as that of {_listed(same)}: write how they differ.")
    silent = [it.alias or it.name for it in entry.parameters if not it.description.strip()]
    if silent:
        share = f"{len(silent)} of {len(entry.parameters)} parameters have no description"
        found.append(f"{share}: {_listed(silent)}. Describe them in the docstring.")
    return found


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def calling_code(found: FoundTool) -> str:
    """Return an import and a call with the required parameters.

    The result is empty if the parameters are unknown, or the file's path is not a module name.
    """
    defined = _DEFINITION.match(found.signature)
    module = module_name(found.path.relative_to(found.root))
    parts = module.split(".")
    if defined is None or not all(it.isidentifier() and not iskeyword(it) for it in parts):
        return ""
    parameters = found.entry.parameters
    arguments = ", ".join(f"{it.name}=…" for it in parameters if it.required)
    function, kind = defined["name"], defined["type"]
    names, call = [function], arguments
    if kind is not None and defined["only"] not in {it.name for it in parameters}:
        names, call = [kind, function], f"{kind}({arguments})"
    waits = "await " if defined["waits"] else ""
    return f"from {module} import {', '.join(names)}\n\n{waits}{function}({call})"


class UsagePage:
    """Shows the usage record."""

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._lock = asyncio.Lock()
        # The figures and when they expire, by the number of days.
        self._reports: dict[int, tuple[UsageReport, float]] = {}

    async def values(self, request: Request) -> Mapping[str, Any]:
        """Return the values of the page."""
        form = read_query(UsageForm, request, is_form=True)
        days = last_days(int(form.days))
        report = await self._report(days)
        shown = [tool for tool in report.tools if self._search.policy.passes_id(tool.tool_id)]
        return {
            "days": form.days,
            "periods": _PERIODS,
            "is_recorded": self._search.settings.usage_log,
            "report": report,
            "plots": _search_plots(days, report.days) if report.total.searches else (),
            "tables": [
                ("Top queries", query_links(report.queries)),
                ("Queries without results", query_links(report.queries_without_results)),
                ("Queries whose tools failed", query_links(report.queries_failed)),
            ],
            "tools": shown[:_SHOWN_TOOLS],
            "more_tools": len(shown[_SHOWN_TOOLS:]),
        }

    async def _report(self, days: Sequence[date]) -> UsageReport:
        since = midnight(days[0])

        def read(store: ToolStore) -> UsageReport:
            record = store.usage
            return usage_report(record.searches(since=since), record.outcomes(since=since))

        async with self._lock:
            report, until = self._reports.get(len(days), (None, 0.0))
            started = time.monotonic()
            if report is None or started >= until:
                report = await self._search.index.read_usage(read)
                ended = time.monotonic()
                self._reports[len(days)] = report, ended + _REST * (ended - started)
            return report


def _search_plots(days: Sequence[date], figures: Sequence[DayFigures]) -> list[Plot]:
    by_day = {it.day: it for it in figures if it.day is not None}
    bars = {
        day: (
            (it.searches - it.without_results, it.without_results),
            f"{day}: {it.searches} searches, {it.without_results} without results",
        )
        for day, it in by_day.items()
    }
    return [
        bar_plot("Searches per day", days, {"whole": "with results", "hollow": "without"}, bars),
        latency_plot("Search latency", days, by_day),
    ]


async def _history(search: ToolSearch, tool_id: str) -> Mapping[str, Any]:
    """Return the values of a tool's page from the usage record of the last days."""
    days = last_days(_TOOL_DAYS)
    since = midnight(days[0])

    def read(store: ToolStore) -> tuple[Sequence[SearchRecord], Sequence[OutcomeRecord]]:
        return (
            store.usage.searches(since=since, found=tool_id),
            store.usage.outcomes(since=since, tool_id=tool_id),
        )

    searches, outcomes = await search.index.read_usage(read)
    by_day = outcome_days(outcomes)
    return {
        "period": _TOOL_DAYS,
        "queries": query_links(usage_report(searches, ()).queries),
        "searches": len(searches),
        "days": by_day,
        "plots": _tool_plots(days, by_day) if not by_day.keys().isdisjoint(days) else (),
    }


def _tool_plots(days: Sequence[date], by_day: Mapping[date, ToolFigures]) -> list[Plot]:
    bars = {
        day: (
            (it.successes, it.outcomes - it.successes),
            f"{it.successes} of {it.outcomes} succeeded",
        )
        for day, it in by_day.items()
    }
    plots = [bar_plot("Calls per day", days, {"whole": "succeeded", "hollow": "failed"}, bars)]
    if any(it.latency_p95_ms for it in by_day.values()):
        plots.append(latency_plot("Latency of successful calls", days, by_day))
    return plots
