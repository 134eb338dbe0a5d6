"""The tools of this server: their definitions, calls and answers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ValidationError, create_model
from toolindex import ToolIndexError

from pytools_hybrid.index import Recording
from pytools_hybrid.serve.mcp._schemas import arguments_schema, result_schema
from pytools_hybrid.serve.operations import (
    AGENT_FIELDS,
    CATEGORIES,
    DESCRIBE,
    LIST,
    META_PREFIX,
    REPORT,
    SEARCH,
    Arguments,
    CallableDescription,
    DescribeArguments,
    Operation,
    Outcome,
    OutcomeArguments,
    SearchArguments,
    Service,
    ToolResult,
    answer_meta,
    offered,
    tool_results,
)
from pytools_hybrid.settings import ALIASES, DEFAULT_LIMIT
from pytools_hybrid.text import first_sentences, json_text, one_line, readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from pydantic_core import ErrorDetails

    from pytools_hybrid.serve.browse import ToolBrowser
    from pytools_hybrid.serve.mcp._asking import Progress

A = TypeVar("A", bound=Arguments)

_log = logging.getLogger("pytools_hybrid")

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""The `_meta` of a tool that Claude Code loads at the start, without a search."""

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""The hints of a tool that changes nothing."""

_RECORDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)

_SHOWN_CHARACTERS = 60
# Only the first problems of a call are reported.
_SHOWN_PROBLEMS = 2
_KINDS: dict[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list of texts",
    "object": "an object",
}

_ABOUT_SEARCH = "Find Python tools by what they do, best first."
_ABOUT_CALLABLE = "Find tools by what they do, best first; call_tool calls them."
_NOTE_CHARACTERS = 300
# The id contains these fields.
_IN_THE_ID = {"name", "category", "source"}
# A model that needs the whole docstring can call describe_tool.
_DESCRIPTION_CHARACTERS = 800

# A client that lists the tools of many servers waits for the slowest of them.
_PATIENCE_SECONDS = 1.0
# Folder names are untrusted, and long ones add nothing.
_NAME_CHARACTERS = 40
# About 55 tokens.
_LISTED_CHARACTERS = 155

_REMEMBERED_SECONDS = 3600.0
_REMEMBERED_TOOLS = 20_000

_REPORTED = {
    Recording.WRITTEN: "recorded",
    Recording.PENDING: (
        "accepted; it is recorded once the index is writable. Do not report it again."
    ),
    Recording.OFF: "not recorded: the usage record is off",
    Recording.READ_ONLY: "not recorded: the index is read-only",
}


class ServerTool(Protocol):
    """A tool that the server offers."""

    @property
    def name(self) -> str:
        """The name for agents."""
        ...

    async def listed(self) -> Tool | None:
        """Return its current definition; None if it is not listed now."""
        ...

    async def call(self, given: Mapping[str, Any], progress: Progress) -> CallToolResult:
        """Answer a call."""
        ...


def read_arguments(model: type[A], given: Mapping[str, Any]) -> A:
    """Return the validated arguments of a call; a `ToolError` says what would be valid."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        schema = arguments_schema(model)
        # An error in a name, such as a lone surrogate, has no field.
        wrong = {str((*it["loc"], it["input"])[0]): it for it in error.errors(include_url=False)}
        shown = islice(wrong.items(), _SHOWN_PROBLEMS)
        # Not chained, because the SDK would log the values in a chained error.
        raise ToolError(
            " ".join(_problem(name, details, given, schema) for name, details in shown)
        ) from None


def quoted(value: object) -> str:
    """Quote a caller's text on one printable line, and cut it if it is long."""
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _problem(
    name: str, wrong: ErrorDetails, given: Mapping[str, Any], schema: Mapping[str, Any]
) -> str:
    fields, limits = schema["properties"], wrong.get("ctx", {})
    if (own := ALIASES.get(name, ("",))[0]) in fields:
        return f"{name} is another name for {own}, and they differ; give one of them."
    if name not in fields:
        return f"There is no argument {quoted(name)}; there are {', '.join(fields) or 'none'}."
    match wrong["type"]:
        case "missing":
            return f"The argument {name} is missing; give {_allowed(fields[name])}."
        case "string_too_long":
            return f"{name} has a text of more than {limits['max_length']} characters; cut it."
        case "too_long":
            return f"{name} is a list of more than {limits['max_length']}; give fewer."
        case _:
            return f"{name} is {quoted(given.get(name))}; give {_allowed(fields[name])}."


def _allowed(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    kind = _KINDS[field["type"]]
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f"{kind} from {least:g} to {most:g}"
    return f"{kind}, {least:g} or more" if least is not None else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTool(Generic[A]):
    """An operation as a tool.

    Attributes:
        arguments: The model of its arguments.
        result: The model of its structured content; None for any content.
        about: Returns its description, which may change with the index.
        run: Answers a call.
        hints: Its annotations, such as whether it changes anything.
    """

    operation: Operation[Any, Any]
    arguments: type[A]
    result: type[BaseModel] | None
    about: Callable[[], Awaitable[str]]
    run: Callable[[A, Progress], Awaitable[CallToolResult]]
    hints: ToolAnnotations = field(default_factory=lambda: READS)

    @property
    def name(self) -> str:
        """The name for agents."""
        return self.operation.name

    async def listed(self) -> Tool:
        """Return its current definition."""
        title = self.operation.title
        return Tool(
            name=self.name,
            title=title,
            description=await self.about(),
            input_schema=arguments_schema(self.arguments),
            output_schema=None if self.result is None else result_schema(self.result),
            annotations=self.hints.model_copy(update={"title": title}),
            _meta=dict(ALWAYS_LOADED),
        )

    async def call(self, given: Mapping[str, Any], progress: Progress) -> CallToolResult:
        """Answer a call."""
        return await self.run(read_arguments(self.arguments, given), progress)


def answer(
    structured: dict[str, Any], text: str | None = None, *, meta: Mapping[str, Any] | None = None
) -> CallToolResult:
    """Create the answer to a call: content for programs, and a text for models.

    The text is one block, because some clients only pass on the first; by default it is the content
    as JSON. The keys of `meta` get this server's prefix.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=json_text(structured) if text is None else text)],
        structured_content=structured,
        _meta={f"{META_PREFIX}{key}": value for key, value in meta.items()} if meta else None,
    )


def search_tools(
    service: Service, summary: CategorySummary, recent: RecentSearches
) -> OperationTool[SearchArguments]:
    """Create the tool; if the service calls tools, results say how to call them."""
    caller, fields = service.caller, AGENT_FIELDS
    if caller is not None:
        from pytools_hybrid.serve.calls import CALLABLE_FIELDS

        fields = CALLABLE_FIELDS

    async def about() -> str:
        begin = _ABOUT_SEARCH if caller is None else _ABOUT_CALLABLE
        return f"{begin} {await summary.sentence()}".rstrip()

    async def run(arguments: SearchArguments, progress: Progress) -> CallToolResult:
        response = await SEARCH.run(service, arguments, progress)
        found = tool_results(response, service.search.roots)
        if arguments.detail == "summary":
            for result, tool in zip(found, response.tools, strict=True):
                result.description = readable(tool.summary)
        results = [_shortened(result) for result in found]
        if caller is not None:
            from pytools_hybrid.serve.calls import callable_results

            tools = await caller.looked_up(it.entry for it in response.tools)
            results = callable_results(found, tools)
        hits = [result.as_dict(fields) for result in results]
        lines = [
            json_text({key: it for key, it in hit.items() if key not in _IN_THE_ID}) for hit in hits
        ]
        if response.notes:
            note = "; ".join(one_line(it, _NOTE_CHARACTERS) for it in response.notes)
            lines.append(f"Note: {note}")
            if hits:
                # Some clients show their model only the structured content.
                hits[0]["note"] = note
        for tool in response.tools:
            listed = (tool.id, *tool.also, *tool.duplicates)
            recent.add(progress.session, response.search_id, listed)
        cut = [
            it.id
            for it, hit in zip(found, hits, strict=True)
            if it.description.split() != hit["description"].split()
        ]
        meta = answer_meta(response, cut)
        return answer({"result": hits}, "\n".join(lines), meta=meta)

    return OperationTool(
        operation=SEARCH,
        arguments=_search_arguments(service.search.settings.limit),
        result=_search_results(fields),
        about=about,
        run=run,
    )


def _search_arguments(limit: int) -> type[SearchArguments]:
    """Return the arguments, with the limit from the settings as the default that agents see."""
    if limit == DEFAULT_LIMIT:
        return SearchArguments
    field = copy(SearchArguments.model_fields["limit"])
    field.default = limit
    return create_model("SearchArguments", __base__=SearchArguments, limit=(int, field))


def _search_results(fields: Iterable[str]) -> type[BaseModel]:
    """Return the model of the results, and of nothing else: some clients unwrap a lone `result`."""
    names = {name: name for name in (*fields, "note")}
    result: Any = offered(ToolResult, names, BaseModel)
    results = list[result]
    return create_model("SearchResults", result=(results, ...))


def _shortened(result: ToolResult) -> ToolResult:
    description = result.description
    if len(description) <= _DESCRIPTION_CHARACTERS:
        return result
    begin = first_sentences(description, _DESCRIPTION_CHARACTERS)
    return result.model_copy(update={"description": f"{begin} … (describe_tool: all)"})


def describe_tool(service: Service) -> OperationTool[DescribeArguments]:
    """Create the tool."""

    async def about() -> str:
        return "Show how to call a tool: signature and JSON Schemas."

    async def run(arguments: DescribeArguments, progress: Progress) -> CallToolResult:
        described = await DESCRIBE.run(service, arguments, progress)
        return answer(described.model_dump(exclude_none=True))

    return OperationTool(
        operation=DESCRIBE,
        arguments=DESCRIBE.arguments,
        result=DESCRIBE.result if service.caller is None else CallableDescription,
        about=about,
        run=run,
    )


def report_outcome(service: Service, recent: RecentSearches) -> OperationTool[OutcomeArguments]:
    """Create the tool.

    An outcome without a search id is attributed to the session's last search that listed the tool.
    """

    async def about() -> str:
        return "Report whether a tool that was used worked; later searches take it into account."

    async def run(arguments: OutcomeArguments, progress: Progress) -> CallToolResult:
        def search_of(tool_id: str) -> str | None:
            return recent.search_of(progress.session, tool_id)

        outcome = await REPORT.run(service, arguments, progress, search_of)
        structured = outcome.model_dump(mode="json", exclude={"tool_id"})
        return answer(structured, _REPORTED[outcome.state])

    names = {"recorded": "recorded", "state": "state"}
    return OperationTool(
        operation=REPORT,
        arguments=REPORT.arguments,
        result=offered(Outcome, names, BaseModel),
        about=about,
        run=run,
        hints=_RECORDS,
    )


def browsing_tools(browser: ToolBrowser) -> list[ServerTool]:
    """Create the tools `list_categories` and `list_tools`, over files and without an index."""

    def made(operation: Operation[Any, Any], description: str) -> ServerTool:
        async def about() -> str:
            return description

        async def run(arguments: Arguments, _: Progress) -> CallToolResult:
            return answer((await operation.run(browser, arguments)).model_dump())

        return OperationTool(
            operation=operation,
            arguments=operation.arguments,
            result=operation.result,
            about=about,
            run=run,
        )

    return [
        made(CATEGORIES, "List the categories of tools, by source."),
        made(LIST, "List the source files of the tools in some categories."),
    ]


class CategorySummary:
    """Reports which categories of tools exist."""

    def __init__(self, service: Service) -> None:
        self._search = service.search
        self._follower = service.follower

    async def sentence(self, *, counted: bool = True) -> str:
        """Return the sentence, largest categories first; empty if the index cannot be read."""
        try:
            counts = await self._counts()
        except ToolIndexError as error:
            _log.info("the descriptions of tools lack categories: %s", error)
            return ""
        if not counts:
            # A client may cache this sentence for its whole session, in which tools may be added.
            return "None are indexed so far; search anyway."
        largest = sorted(counts, key=lambda name: (-counts[name], name))
        shown: list[str] = []
        for name in largest:
            shown.append(one_line(name, _NAME_CHARACTERS))
            if len(", ".join(shown)) > _LISTED_CHARACTERS:
                shown.pop()
                break
        noun = "category" if len(counts) == 1 else "categories"
        begin = f"Indexed: {counts.total()} in {len(counts)} {noun}" if counted else "Categories"
        return f"{begin}: {', '.join(shown)}{', …' if len(shown) < len(largest) else '.'}"

    async def _counts(self) -> Counter[str]:
        """Count the tools of each category that can be found.

        An existing index is read without waiting; the wait for a new one is short.
        """
        if not await self._follower.wait_until_open(within=_PATIENCE_SECONDS):
            return Counter()
        counts = await self._read()
        if not counts and await self._follower.wait_until_scanned(within=_PATIENCE_SECONDS):
            counts = await self._read()
        return counts

    async def _read(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for it in await self._search.categories():
            counts[it.category] += it.tools
        return counts


class RecentSearches:
    """Stores the last search that listed a tool, for each session.

    Few clients show an answer's `_meta` to their model, so a model cannot send the search id back.

    Args:
        seconds: How long a search is stored.
        most: The maximum number of listed tools, over all sessions.
    """

    def __init__(
        self, *, seconds: float = _REMEMBERED_SECONDS, most: int = _REMEMBERED_TOOLS
    ) -> None:
        self._seconds = seconds
        self._most = most
        # The oldest first.
        self._searches: dict[tuple[str, str], tuple[float, str]] = {}

    def add(self, session: str | None, search_id: str, tool_ids: Iterable[str]) -> None:
        """Store the tools that a search has listed; without a session, nothing."""
        if session is None:
            return
        for tool_id in tool_ids:
            self._searches.pop((session, tool_id), None)
            self._searches[session, tool_id] = time.monotonic(), search_id
        while len(self._searches) > self._most:
            del self._searches[next(iter(self._searches))]

    def search_of(self, session: str | None, tool_id: str) -> str | None:
        """Return the id of the last search of a session that listed a tool, if there is one."""
        if session is None:
            return None
        at, search_id = self._searches.get((session, tool_id), (0.0, None))
        return search_id if time.monotonic() - at < self._seconds else None
