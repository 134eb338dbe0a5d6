"""The tools for MCP clients: their definitions, calls and answers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from copy import copy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations
from mcp.types.version import is_version_at_least
from pydantic import BaseModel, ValidationError, create_model
from toolembed import EmbeddingError
from toolimport import ToolImportError
from toolindex import ToolIndexError
from toolrank import ToolRankError

from pytools_hybrid.errors import PytoolsError
from pytools_hybrid.index import Recording
from pytools_hybrid.serve.mcp import ServerTool, quoted
from pytools_hybrid.serve.operations import (
    AGENT_FIELDS,
    CALL,
    CATEGORIES,
    DESCRIBE,
    LIST,
    META_PREFIX,
    REPORT,
    SEARCH,
    Arguments,
    CallableDescription,
    CallArguments,
    DescribeArguments,
    Operation,
    Outcome,
    OutcomeArguments,
    SearchArguments,
    Service,
    ToolResult,
    answer_meta,
    offered,
    result_values,
)
from pytools_hybrid.serve.short_schemas import arguments_schema, result_schema
from pytools_hybrid.settings import ALIASES, DEFAULT_LIMIT, Roots
from pytools_hybrid.text import first_sentences, json_text, one_line, readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from mcp.types import InputRequiredResult
    from pydantic_core import ErrorDetails

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.asking import ClientQuestions
    from pytools_hybrid.serve.browse import ToolBrowser
    from pytools_hybrid.serve.mcp import ClientCall, LogLevels
    from pytools_hybrid.settings import RootsLike, Settings

A = TypeVar("A", bound=Arguments)

OUR_ERRORS = (EmbeddingError, ToolImportError, ToolIndexError, ToolRankError, PytoolsError)
"""The errors whose messages are for clients."""

_log = logging.getLogger("pytools_hybrid")

# Claude Code loads such a tool at the start, without a search.
_ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_RECORDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
# A called tool may do anything, so there are no hints.
_ANYTHING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)

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


def tools_of(
    search: ToolSearch | None,
    follower: Follower | None,
    settings: Settings,
    root: RootsLike,
    levels: LogLevels | None,
) -> list[ServerTool]:
    """Return the tools of the profile in the settings."""
    tools: list[ServerTool] = []
    if settings.tools != "basic":
        if search is None or follower is None:
            raise ValueError(f"the profile {settings.tools} needs an open search and its follower")
        tools += IndexTools(search, follower, levels).tools()
    if settings.tools in {"basic", "all"}:
        from pytools_hybrid.serve.browse import ToolBrowser

        roots = Roots.of(root, settings.resolved_layouts)
        tools += _browsing_tools(
            ToolBrowser(roots, settings.policy, outside_links=settings.outside_links)
        )
    return tools


def _tool(
    operation: Operation[Any, Any],
    about: str | Callable[[], Awaitable[str]],
    run: Callable[[Any, ClientCall], Awaitable[CallToolResult | InputRequiredResult]],
    *,
    hints: ToolAnnotations = _READS,
    arguments: type[Arguments] | None = None,
    result: Callable[[], type[BaseModel]] | None = None,
) -> ServerTool:
    """Create a tool for an operation.

    Args:
        operation: The operation.
        about: The description, or returns one, which may change with the index.
        run: Answers a call.
        hints: The annotations, such as whether it changes anything.
        arguments: The model of the arguments, if it is not the operation's.
        result: Returns the model of the structured content, if it is not the operation's.
    """
    model = arguments or operation.arguments

    async def listed() -> Tool:
        content = result() if result else operation.result
        return Tool(
            name=operation.name,
            title=operation.title,
            description=about if isinstance(about, str) else await about(),
            input_schema=arguments_schema(model),
            output_schema=None if content is None else result_schema(content),
            annotations=hints.model_copy(update={"title": operation.title}),
            _meta=dict(_ALWAYS_LOADED),
        )

    async def call(
        given: Mapping[str, Any], client: ClientCall
    ) -> CallToolResult | InputRequiredResult:
        return await run(read_arguments(model, given), client)

    return ServerTool(operation.name, listed, call)


def _answer(
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


class IndexTools:
    """The tools over an index.

    Args:
        levels: The clients' minimum log levels; with them, the server calls tools.
    """

    def __init__(self, search: ToolSearch, follower: Follower, levels: LogLevels | None) -> None:
        caller, self._fields = None, AGENT_FIELDS
        if levels is not None:
            # A profile only imports what it needs, because a client waits for the server to start.
            from pytools_hybrid.serve.asking import SuspendedCalls
            from pytools_hybrid.serve.calls import ToolCaller
            from pytools_hybrid.serve.forms import CALLABLE_FIELDS

            caller, self._fields = ToolCaller(search), CALLABLE_FIELDS
            self._suspended = SuspendedCalls(levels)
        self.service = Service(search, follower, caller)
        self._summary = CategorySummary(self.service)
        self._recent = RecentSearches()

    def tools(self) -> list[ServerTool]:
        """Return the tools of the profile."""
        settings, calls = self.service.search.settings, self.service.caller is not None
        tools = [
            _tool(
                SEARCH,
                self._about_search,
                self._search,
                arguments=_search_arguments(settings.limit),
                result=self._search_results,
            ),
            _tool(
                DESCRIBE,
                "Show how to call a tool: signature and JSON Schemas.",
                self._describe,
                result=(lambda: CallableDescription) if calls else None,
            ),
            _tool(
                REPORT,
                "Report whether a tool that was used worked; later searches take it into account.",
                self._report,
                hints=_RECORDS,
                result=_outcome_results,
            ),
        ]
        if calls:
            # With `read_only`, it only calls tools that are annotated as read-only.
            reads = _READS.model_copy(update={"open_world_hint": True})
            hints = reads if settings.read_only else _ANYTHING
            tools.insert(2, _tool(CALL, self._about_call, self._call, hints=hints))
            tools += self._pinned([tool.name for tool in tools])
        return tools

    def _pinned(self, taken: Sequence[str]) -> Iterator[ServerTool]:
        """Yield the pinned tools; one whose name is taken gets its category as a prefix."""
        ids = self.service.search.settings.pin
        bare = [id_.rpartition(":")[2] for id_ in ids]
        for name, id_ in zip(bare, ids, strict=True):
            is_free = bare.count(name) == 1 and name not in taken
            own = name if is_free else "__".join(id_.split(":")[1:])
            listed = partial(self._list_pinned, own, id_)
            yield ServerTool(own, listed, partial(self._call_pinned, id_))

    async def _list_pinned(self, name: str, id_: str) -> Tool | None:
        """Return the definition of a pinned tool; None while it is missing or not callable."""
        service = self.service
        try:
            # An existing index is read without waiting; the wait for a new one is short.
            if (
                not await service.follower.wait_until_open(within=_PATIENCE_SECONDS)
                or not service.caller
            ):
                return None
            await service.follower.wait_until_scanned(within=_PATIENCE_SECONDS)
            tool = await service.caller.find(id_)
            tool.callee()
        except (PytoolsError, ToolIndexError) as error:
            _log.warning("the pinned tool %s is not listed: %s", id_, error)
            return None
        return Tool(
            name=name,
            description=readable(tool.entry.description),
            input_schema={"type": "object", **(tool.schema or {})},
            annotations=ToolAnnotations.model_validate(tool.annotations),
            _meta=dict(_ALWAYS_LOADED),
        )

    async def _call_pinned(
        self, id_: str, given: Mapping[str, Any], client: ClientCall
    ) -> CallToolResult | InputRequiredResult:
        # No search listed it.
        arguments = CallArguments.model_construct(id=id_, arguments=dict(given))
        return await self._call(arguments, client, was_searched=False)

    async def _about_search(self) -> str:
        begin = "Find Python tools by what they do, best first."
        if self.service.caller is not None:
            begin = "Find tools by what they do, best first; call_tool calls them."
        return f"{begin} {await self._summary.sentence()}".rstrip()

    async def _about_call(self) -> str:
        # Codex finds tools by the words of their descriptions.
        categories = await self._summary.sentence(counted=False)
        return f"Call a tool that search_tools has found. {categories}".rstrip()

    def _search_results(self) -> type[BaseModel]:
        """Return the model of the results, and of nothing else: some clients unwrap a `result`."""
        names = {name: name for name in (*self._fields, "note")}
        result: Any = offered(ToolResult, names, BaseModel)
        results = list[result]
        return create_model("SearchResults", result=(results, ...))

    async def _search(self, arguments: SearchArguments, client: ClientCall) -> CallToolResult:
        service = self.service
        response = await SEARCH.run(service, arguments, client)
        hits = result_values(response, service.search.roots)
        whole: list[str] = []
        for tool, hit in zip(response.tools, hits, strict=True):
            if arguments.detail == "summary":
                hit["description"] = readable(tool.summary)
            whole.append(hit["description"])
            hit["description"] = _shortened(hit["description"])
        if service.caller is not None:
            from pytools_hybrid.serve.forms import callable_values

            tools = await service.caller.looked_up(it.entry for it in response.tools)
            hits = [
                callable_values(hit, tool, is_first=place == 0)
                for place, (hit, tool) in enumerate(zip(hits, tools, strict=True))
            ]
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
            self._recent.add(client.session, response.search_id, listed)
        cut = [
            hit["id"]
            for text, hit in zip(whole, hits, strict=True)
            if text != hit["description"] and text.split() != hit["description"].split()
        ]
        return _answer({"result": hits}, "\n".join(lines), meta=answer_meta(response, cut))

    async def _describe(self, arguments: DescribeArguments, client: ClientCall) -> CallToolResult:
        described = await DESCRIBE.run(self.service, arguments, client)
        return _answer(described.model_dump(exclude_none=True))

    async def _report(self, arguments: OutcomeArguments, client: ClientCall) -> CallToolResult:
        outcome = await REPORT.run(self.service, arguments, client, self._search_of(client))
        structured = outcome.model_dump(mode="json", exclude={"tool_id"})
        return _answer(structured, _REPORTED[outcome.state])

    def _search_of(self, client: ClientCall) -> Callable[[str], str | None]:
        """Return what attributes an outcome to the session's last search that listed the tool."""
        return lambda tool_id: self._recent.search_of(client.session, tool_id)

    async def _call(
        self, arguments: CallArguments, client: ClientCall, *, was_searched: bool = True
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool, and pass its server's questions on to the client."""
        context = client.context
        if context is None:
            return await CALL.run(self.service, arguments)
        await self.service.follower.wait_until_scanned(client)
        search_of = self._search_of(client) if was_searched else None

        async def call(asker: ClientQuestions) -> CallToolResult:
            return await CALL.run(self.service, arguments, context=asker.call_context(search_of))

        result = await self._suspended.answer(context, client.session, call)
        protocol = context.protocol_version
        is_modern = protocol is not None and is_version_at_least(protocol, "2026-07-28")
        if is_modern or not isinstance(result, CallToolResult):
            return result
        structured = result.structured_content
        if structured is None or isinstance(structured, dict):
            return result
        # In older versions, it must be an object.
        return result.model_copy(update={"structured_content": {"result": structured}})


def _browsing_tools(browser: ToolBrowser) -> list[ServerTool]:
    """Return the tools `list_categories` and `list_tools`, over files and without an index."""

    async def run(
        operation: Operation[Any, Any], arguments: Arguments, _: ClientCall
    ) -> CallToolResult:
        return _answer((await operation.run(browser, arguments)).model_dump())

    texts = {
        CATEGORIES: "List the categories of tools, by source.",
        LIST: "List the source files of the tools in some categories.",
    }
    return [_tool(operation, text, partial(run, operation)) for operation, text in texts.items()]


def _outcome_results() -> type[BaseModel]:
    return offered(Outcome, {"recorded": "recorded", "state": "state"}, BaseModel)


def _search_arguments(limit: int) -> type[SearchArguments]:
    """Return the arguments, with the limit from the settings as the default that agents see."""
    if limit == DEFAULT_LIMIT:
        return SearchArguments
    field = copy(SearchArguments.model_fields["limit"])
    field.default = limit
    return create_model("SearchArguments", __base__=SearchArguments, limit=(int, field))


def _shortened(description: str) -> str:
    if len(description) <= _DESCRIPTION_CHARACTERS:
        return description
    begin = first_sentences(description, _DESCRIPTION_CHARACTERS)
    return f"{begin} … (describe_tool: all)"


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
    """

    def __init__(self) -> None:
        # By session and tool, the oldest first.
        self._searches: dict[tuple[str, str], tuple[float, str]] = {}

    def add(self, session: str | None, search_id: str, tool_ids: Iterable[str]) -> None:
        """Store the tools that a search has listed; without a session, nothing."""
        if session is None:
            return
        for tool_id in tool_ids:
            self._searches.pop((session, tool_id), None)
            self._searches[session, tool_id] = time.monotonic(), search_id
        while len(self._searches) > _REMEMBERED_TOOLS:
            del self._searches[next(iter(self._searches))]

    def search_of(self, session: str | None, tool_id: str) -> str | None:
        """Return the id of the last search of a session that listed a tool, if there is one."""
        at, search_id = self._searches.get((session or "", tool_id), (0.0, None))
        return search_id if time.monotonic() - at < _REMEMBERED_SECONDS else None
