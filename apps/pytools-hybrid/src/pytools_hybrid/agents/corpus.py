"""Search over tools in memory, with the same ranking as for trees of tools."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import tempfile
import threading
import time
import weakref
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolscan import Parameter, ScanReport, ToolId, ToolRecord
from toolscan.docstrings import Docstring

from pytools_hybrid.agents.functions import FoundFunction, own_functions, own_tool
from pytools_hybrid.index import (
    Recorder,
    SQLiteStore,
    configured_embedder,
    embed_texts,
    interim_embedder,
)
from pytools_hybrid.search import (
    ModelSelector,
    RankingEngine,
    SearchRequest,
    TuningFile,
    cut_query,
    hybrid_search,
    observed,
)
from pytools_hybrid.settings import MAX_LIMIT, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import JsonValue
    from toolembed import Embedder

    from pytools_hybrid.agents.functions import ToolFunction
    from pytools_hybrid.search import FoundTool

_log = logging.getLogger("pytools_hybrid")

SEARCH_DESCRIPTION = (
    "Find tools by what they should do, in plain language. The tools that are found can be called "
    "afterwards. Search before saying that something cannot be done."
)
"""How the search is described to a model that calls it as a tool."""

_READER = "definitions 2"
_TURN_SECONDS = 60.0
# How long a search waits for a slow model.
_EMBEDDING_SECONDS = 15.0
# How many tools a slow model embeds for a search if there is a faster model: this takes a tenth of
# a second.
_FEW = 4
_PAUSE_SECONDS = 60.0
_SOURCE = "held"
# What clients put between the names of a server and its tool.
_NAMESPACE = re.compile(r"__|[.:/]")
# A word here would be in every text, which costs .002 to .004 of NDCG@10.
_NO_CATEGORY = "_"
# Allowed neither in an id nor in a row.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """The definition of a tool for a language model.

    Attributes:
        name: Its name, unique among the tools searched; the part before `__`, `.`, `/` or `:`
            counts as its category.
        description: What it does.
        input_schema: The JSON Schema of its arguments.
    """

    name: str
    description: str | None = ""
    input_schema: Mapping[str, Any] | None = field(default_factory=dict[str, Any])


class ToolCorpus:
    """Finds those of a program's own functions or tools that fit a request.

    `search` searches the functions given to the corpus, `rank` the definitions given with each
    call.

    The index is a temporary file, updated from one set of tools to the next: unchanged tools cost
    nothing, and no text is embedded twice. A corpus can be used from any thread and event loop,
    even several at once. Nothing is left behind when it is closed or collected, or the program
    ends.

    Args:
        functions: What `search` searches: functions, methods, partials, any callable object, tools
            of pydantic-ai and LangChain. Docstrings and signatures are read as in tool modules; a
            function without a docstring is found by its name and parameters alone.
        settings: The settings; only the model and those of the ranking count.
        embedder: The model to use instead of the one in the settings.

    Raises:
        TypeError: One of the functions cannot be called.
    """

    def __init__(
        self,
        functions: Iterable[object] = (),
        settings: Settings | None = None,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self._functions = own_functions(functions)
        self._own = _identified(
            ToolDefinition(
                name=name,
                description=info.description,
                input_schema={
                    "properties": {it: {"description": of} for it, of in info.parameters.items()}
                },
            )
            for name, info in self._functions.items()
        )
        self._callable: dict[str, ToolFunction] = {}
        self.settings: Settings = Settings.from_flags({}) if settings is None else settings
        self._embedder = embedder or configured_embedder(self.settings)
        self._opening = threading.Lock()
        self._opened: tuple[SQLiteStore, RankingEngine] | None = None
        self._remove: weakref.finalize[[SQLiteStore, Path], ToolCorpus] | None = None
        self._loop_state: _LoopState | None = None
        self._tools: dict[ToolId, ToolDefinition] = {}
        self._records: dict[ToolId, ToolRecord] = {}
        self._failure = ""
        self._embeds_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the index; a search rebuilds it."""
        with self._opening:
            if self._remove is not None:
                self._remove()
            self._opened = self._remove = self._loop_state = None
            self._tools, self._records = {}, {}

    async def search(
        self, query: str, *, limit: int | None = None, threshold: float | None = None
    ) -> list[FoundFunction]:
        """Return the functions that fit a request, best first; arguments and errors as for `rank`.

        A function's schema is created when it is first found.
        """
        found: list[FoundFunction] = []
        for hit in await self._search(query, self._own, limit, threshold):
            name = self._own[hit.entry.id].name
            info = self._functions[name]
            if name not in self._callable:
                self._callable[name] = own_tool(info, name)
            found.append(
                FoundFunction(
                    function=info.given,
                    tool=self._callable[name],
                    score=hit.score,
                    confidence=hit.confidence,
                )
            )
        return found

    async def rank(
        self,
        query: str,
        tools: Iterable[ToolDefinition],
        *,
        limit: int | None = None,
        threshold: float | None = None,
    ) -> list[str]:
        """Return the names of the tools that fit a request, best first.

        If the model fails, the tools are ranked by words alone, and the log says so.

        Args:
            query: The request in plain language; any string is answered.
            tools: The tools to choose from.
            limit: How many at most, and never more than `MAX_LIMIT`; None for the setting.
            threshold: The minimum confidence of a result, from 0 (for all) to 1; None for the
                setting.

        Raises:
            DatabaseError: The temporary folder has no room for the index.
        """
        held = _identified(tools)
        return [
            held[hit.entry.id].name for hit in await self._search(query, held, limit, threshold)
        ]

    async def _search(
        self,
        query: str,
        held: dict[ToolId, ToolDefinition],
        limit: int | None,
        threshold: float | None,
    ) -> Sequence[FoundTool]:
        limit = self.settings.limit if limit is None else limit
        threshold = self.settings.threshold if threshold is None else threshold
        if not held or limit < 1:
            return ()
        request = SearchRequest(
            text=cut_query(query), limit=min(limit, MAX_LIMIT), min_confidence=threshold
        )
        store, engine = await asyncio.to_thread(self._open)
        state = self._in_this_loop(store, engine)
        # Held from the update to the answer, because other callers may pass other tools.
        async with state.lock, store.lease("corpus").acquire_async(patience=_TURN_SECONDS):
            if held is not self._tools and held != self._tools:
                await asyncio.to_thread(self._hold, store, held)
                self._embeds_at = float("-inf")
            await self._embed(store)
            response = await observed(request.mode, state.answering.answer(request, self._failure))
            # Not later, because this loop may end, or the index may be removed, at any time.
            await state.recorder.aclose()
        for note in response.lost:
            _log.warning("%s", note)
        return response.tools

    def _open(self) -> tuple[SQLiteStore, RankingEngine]:
        with self._opening:
            if self._opened is None:
                folder = Path(tempfile.mkdtemp(prefix="pytools-hybrid-"))
                store = SQLiteStore(folder / "corpus.db", field_weights=self.settings.field_weights)
                self._remove = weakref.finalize(self, _remove, store, folder)
                settings = self.settings
                engine = RankingEngine(
                    store,
                    bm25_weight=settings.bm25_weight,
                    vec_weight=settings.vec_weight,
                    search=hybrid_search(settings.fusion, settings.rrf_k),
                    tuning=TuningFile(settings.tuning),
                )
                self._opened = store, engine
            return self._opened

    def _hold(self, store: SQLiteStore, tools: dict[ToolId, ToolDefinition]) -> None:
        known = self._tools
        self._records = {
            tool_id: self._records[tool_id]
            if known.get(tool_id) == tool
            else _record(tool_id, tool)
            for tool_id, tool in tools.items()
        }
        store.sync(ScanReport(records=tuple(self._records.values())), reader_version=_READER)
        self._tools = tools

    async def _embed(self, store: SQLiteStore) -> None:
        embedder, now = self._embedder, time.monotonic()
        if embedder is None or now < self._embeds_at:
            return
        interim = interim_embedder(embedder)
        at_most = None if interim is None else _FEW
        try:
            async with asyncio.timeout(_EMBEDDING_SECONDS):
                if interim is not None:
                    await embed_texts(store, interim)
                embedded, _ = await embed_texts(store, embedder, at_most=at_most)
        except Exception as error:  # noqa: BLE001 - a model may fail with anything
            self._failure = str(error) or f"{embedder.model_id} is slow"
            self._embeds_at = now + _PAUSE_SECONDS
        else:
            is_done = at_most is None or embedded < at_most
            self._failure, self._embeds_at = "", float("inf" if is_done else "-inf")

    def _in_this_loop(self, store: SQLiteStore, engine: RankingEngine) -> _LoopState:
        loop, state = asyncio.get_running_loop(), self._loop_state
        if state is None or state.loop is not loop:
            recorder = Recorder(store, keeps_searches=False)
            answering = ModelSelector(store, engine, recorder, self._embedder)
            state = self._loop_state = _LoopState(
                loop=loop, lock=asyncio.Lock(), recorder=recorder, answering=answering
            )
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoopState:
    """What belongs to one event loop, and cannot be awaited in another."""

    loop: asyncio.AbstractEventLoop
    lock: asyncio.Lock
    recorder: Recorder
    answering: ModelSelector


def _remove(store: SQLiteStore, folder: Path) -> None:
    store.close()
    shutil.rmtree(folder, ignore_errors=True)


def _identified(tools: Iterable[ToolDefinition]) -> dict[ToolId, ToolDefinition]:
    """Assign each tool its own id; of several with the same name, the last counts."""
    ids: dict[ToolId, ToolDefinition] = {}
    for tool in {tool.name: tool for tool in tools}.values():
        *namespace, name = [_plain(part) for part in _NAMESPACE.split(tool.name) if part] or ["_"]
        category = ".".join(namespace) or _NO_CATEGORY
        numbers = count(2)
        tool_id = ToolId(source=_SOURCE, category=category, name=name)
        while tool_id in ids:
            tool_id = ToolId(source=_SOURCE, category=category, name=f"{name} {next(numbers)}")
        ids[tool_id] = tool
    return ids


def _record(tool_id: ToolId, tool: ToolDefinition) -> ToolRecord:
    """Return the record that a scan of an equivalent module would return."""
    description = _plain((tool.description or "").strip(), keep="\n\t")
    parameters = _parameters(tool.input_schema or {})
    docstring = Docstring(description)
    tags = tuple(map(_plain, docstring.tags))
    text = tool_id.embedding_text(description, (it.name for it in parameters), tags=tags)
    everything = repr((text, parameters))
    return ToolRecord(
        id=tool_id,
        path=f"{tool_id.category}/{tool_id.name}",
        entrypoint="run",
        signature=f"def run({', '.join(it.name for it in parameters)})",
        summary=docstring.summary,
        description=description,
        parameters=parameters,
        returns="",
        tags=tags,
        use_cases=docstring.use_cases,
        is_async=False,
        file_hash=_hash(everything),
        text_hash=_hash(text),
        stamp=None,
    )


def _parameters(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    properties: JsonValue = schema.get("properties")
    required: JsonValue | tuple[str, ...] = schema.get("required")
    if not isinstance(properties, dict):
        return ()
    needed: Sequence[object] = required if isinstance(required, list | tuple) else ()
    return tuple(
        Parameter(
            name=_plain(str(name)),
            annotation=_plain(str(value.get("type", ""))),
            required=name in needed,
            description=_plain(str(value.get("description", "")), keep="\n\t"),
        )
        for name, value in properties.items()
        # A schema may also be true, or false.
        for value in [value if isinstance(value, dict) else {}]
    )


def _plain(text: str, *, keep: str = "") -> str:
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else "_", text)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
