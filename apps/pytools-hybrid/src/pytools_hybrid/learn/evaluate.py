"""Measuring how well searches find the right tools of one tree, and which configuration is best.

`read_queries` reads requests with the tools that answer them, `configurations` returns what to
compare, and `Evaluator` runs every query in every configuration, on temporary indexes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import apsw
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from toolimport.system import read_regular_file
from toolindex import SyncReport, ToolIndex, finish_in_thread
from toolrank import Hit
from toolscan import ToolId, ToolScanError

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import temporary_folder
from pytools_hybrid.index import configured_embedder
from pytools_hybrid.learn.figures import DEPTH, EvaluationReport, Figures, measure
from pytools_hybrid.search import SearchMode, ToolSearch, TuningFile
from pytools_hybrid.settings import MAX_LIMIT
from pytools_hybrid.terminal import Progress, print_sync, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolembed import Embedder
    from toolscan import Layout, ScanIssue

    from pytools_hybrid.search import SearchResponse
    from pytools_hybrid.settings import Roots, Settings

_EXAMPLE_LINE = (
    '{"id": "q1", "query": "open an issue on github", "gold": ["mcptools:github:create_issue"]}'
)
_NO_GROUP = "(none)"
_MAX_BYTES = 256 << 20
_FUSIONS = ("linear", "rrf")
_EXAMPLES = 3
# The first searches load the model and the vectors, which a server only does once.
_WARM_UP = ("warm up", "warm up twice", "warm up three times", "warm up four times")
# The number of pages copied at a time, so that other processes can write in between.
_PAGES = 1000


# Queries


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuery:
    """A query and the tools that answer it.

    Attributes:
        id: Its id, unique in the file.
        gold: The ids of the right tools, without duplicates.
        group: Its group in a breakdown; empty without one.
    """

    id: str
    text: str
    gold: tuple[str, ...]
    group: str = ""


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    id: Annotated[str, StringConstraints(min_length=1)]
    query: Annotated[str, StringConstraints(pattern=r"\S")]
    gold: list[Annotated[str, StringConstraints(min_length=1)]]


def read_queries(path: Path, *, by: str | None = None) -> list[EvaluationQuery]:
    """Read a queries file; blank lines and unknown keys are ignored.

    A query without the key `by` is in the group "(none)".

    Raises:
        SettingsError: The file cannot be read or has no queries, a line is not a query, an id
            occurs twice, or no query has the key.
    """
    try:
        content = read_regular_file(path, limit=_MAX_BYTES)
    except OSError as error:
        raise SettingsError("--queries", f"{path}: {error.strerror}") from error
    queries: dict[str, EvaluationQuery] = {}
    keys: set[str] = set()
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = _Line.model_validate_json(line)
            if not fields.gold:
                raise ValueError('"gold" is empty: a query without a right tool cannot be measured')
            if fields.id in queries:
                raise ValueError(f"the id {fields.id!r} occurs twice")
        except ValueError as error:
            problem = _problem(error) if isinstance(error, ValidationError) else error
            raise SettingsError(
                "--queries", f"{path}:{number}: {problem}; write lines as {_EXAMPLE_LINE}"
            ) from error
        queries[fields.id] = EvaluationQuery(
            id=fields.id,
            text=fields.query,
            gold=tuple(dict.fromkeys(fields.gold)),
            group="" if by is None else _group(fields.model_dump().get(by)),
        )
        keys |= fields.model_fields_set
    if not queries:
        raise SettingsError(
            "--queries", f"{path} contains no query; write lines as {_EXAMPLE_LINE}"
        )
    if by is not None and by not in keys:
        there = ", ".join(sorted(keys - set(_Line.model_fields))) or "none"
        raise SettingsError("--group-by", f"no query has the key {by!r}; they have: {there}")
    return list(queries.values())


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] == "string_pattern_mismatch":
        return '"query" is not a text'
    where = f'"{first["loc"][0]}": ' if first["loc"] else ""
    return where + first["msg"]


def _group(value: object) -> str:
    if value is None or value == "":
        return _NO_GROUP
    return value if isinstance(value, str) else json.dumps(value)


def recall_depths(text: str) -> tuple[int, ...]:
    """Parse the depths of recall, such as `1,3,5,10`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise SettingsError("--recall-at", f"{text!r} is not a list of numbers such as 1,3,5,10")
    depths = sorted({int(part) for part in parts})
    if depths[0] < 1 or depths[-1] > MAX_LIMIT:
        raise SettingsError("--recall-at", f"{text!r} is not in the range of 1 to {MAX_LIMIT}")
    return tuple(depths)


# Configurations


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to search.

    Attributes:
        name: Its name in tables: the mode, "hybrid (rrf)" for a fusion other than the one in the
            settings, "hybrid (untuned)" for search without tuning, or the model's name if there are
            several.
        selected_by: The environment variables that make this the default; empty if it already is.
    """

    name: str
    mode: SearchMode
    settings: Settings
    selected_by: Mapping[str, str]


def of_models(
    settings: Settings, models: Sequence[str], mode: SearchMode | None
) -> list[Configuration]:
    """Return a configuration for each model, and one without tuning for a tuned model.

    Without a `mode` they are hybrid.

    Raises:
        SettingsError: The mode is "vector", and a model is "none".
    """
    mode = mode or SearchMode.HYBRID
    return [
        replace(
            each,
            name=each.name.replace(mode.value, model),
            selected_by=dict(each.selected_by)
            | ({} if model == settings.embedding_model else {"PYTOOLS_EMBEDDING_MODEL": model}),
        )
        for model in dict.fromkeys(models)
        for each in configurations(settings.model_copy(update={"embedding_model": model}), mode)
    ]


def configurations(settings: Settings, mode: SearchMode | None) -> list[Configuration]:
    """Return the configurations to compare.

    Without a `mode`, these are all modes and both fusions, or only bm25 if there are no vectors.

    Raises:
        SettingsError: The mode is "vector", and the model is "none".
    """
    has_vectors = settings.embedding_model != "none"
    if mode is SearchMode.VECTOR and not has_vectors:
        raise SettingsError("--mode", "vectors are turned off: the model is 'none'")
    if mode is None and not has_vectors:
        return [Configuration(name="bm25", mode=SearchMode.BM25, settings=settings, selected_by={})]
    without_vec = {} if settings.bm25_weight else {"PYTOOLS_BM25_WEIGHT": "1"}
    without_bm25 = {} if settings.vec_weight else {"PYTOOLS_VEC_WEIGHT": "1"}
    selected = {
        SearchMode.BM25: without_vec | {"PYTOOLS_VEC_WEIGHT": "0"},
        SearchMode.VECTOR: without_bm25 | {"PYTOOLS_BM25_WEIGHT": "0"},
        SearchMode.HYBRID: {},
    }
    compared = [
        Configuration(name=each.value, mode=each, settings=settings, selected_by=variables)
        for each, variables in selected.items()
        if mode in (None, each)
    ]
    other = next(fusion for fusion in _FUSIONS if fusion != settings.fusion)
    other_fusion = Configuration(
        name=f"hybrid ({other})",
        mode=SearchMode.HYBRID,
        settings=settings.model_copy(update={"fusion": other}),
        selected_by={"PYTOOLS_FUSION": other},
    )
    untuned = [
        replace(
            each,
            name=f"{each.name} (untuned)",
            settings=settings.model_copy(update={"tuning": Path("none")}),
            selected_by={**each.selected_by, "PYTOOLS_TUNING": "none"},
        )
        for each in compared
        if each.mode is (mode or SearchMode.HYBRID) and _is_tuned(settings)
    ]
    return [*compared, *([other_fusion] if mode is None else []), *untuned]


def _is_tuned(settings: Settings) -> bool:
    tuning, _ = TuningFile(settings.tuning).current()
    embedder = configured_embedder(settings)
    return tuning is not None and embedder is not None and tuning.model_id == embedder.model_id


# Running them


class Evaluator:
    """Evaluates searches of a tree, or of several as one, and reports progress on stderr.

    Every configuration searches its own copy of the index, so that none benefits from another's
    cached vectors, and the usage record does not contain the queries.

    Args:
        database: The index to update and to copy, or None for a temporary one.
        embedder: The model to use instead of those of the configurations.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        database: Path | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._roots = roots
        self._database = database
        self._embedder = embedder
        # All configurations share a model, which may take a gigabyte, and a minute to load.
        self._embedders: dict[str, Embedder | None] = {}

    async def evaluate(
        self,
        queries: Sequence[EvaluationQuery],
        compared: Sequence[Configuration],
        *,
        recall_at: tuple[int, ...],
        by: str | None = None,
    ) -> EvaluationReport:
        """Index the tree, run every query in every configuration, and measure the answers.

        Raises:
            SettingsError: The index has none of the gold tools.
            EmbeddingError: The model returned no vectors, and a configuration needs them.
            DatabaseError: The index cannot be read or written.
            RootUnreadableError: A tree cannot be listed.
        """
        figures: list[Figures] = []
        gold: list[tuple[int, UnknownGold]] = []
        by_model: dict[str, list[Configuration]] = {}
        for each in compared:
            by_model.setdefault(each.settings.embedding_model, []).append(each)
        with temporary_folder() as folder:
            database = self._database or folder / "index.db"
            for alike in by_model.values():
                async with self._opened(alike[0].settings, database) as tools:
                    with_vectors = any(tools.uses_vectors(each.mode) for each in alike)
                    issues = await self._update(tools, with_vectors=with_vectors)
                    if not gold:
                        gold += [await finish_in_thread(_look_up, tools, queries, issues)]
                        self._report_unknown(gold[0][1])
                    for configuration in alike:
                        with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
                            copy = Path(own, "index.db")
                            await finish_in_thread(copy_index, tools, copy)
                            figures.append(await self.run(configuration, queries, copy, recall_at))
        ((tool_count, unknown),) = gold
        return EvaluationReport(
            queries=len(queries),
            tools=tool_count,
            model=", ".join(by_model),
            recall_at=recall_at,
            by=by,
            figures=tuple(figures),
            unknown=unknown,
        )

    def _opened(self, settings: Settings, database: Path) -> ToolSearch:
        model = settings.embedding_model
        if self._embedder is None and model not in self._embedders:
            self._embedders[model] = configured_embedder(settings)
        embedder = self._embedder or self._embedders[model]
        settings = settings.model_copy(update={"database": database})
        return ToolSearch(self._roots, settings, embedder=embedder, refresh=False)

    async def _update(self, tools: ToolSearch, *, with_vectors: bool) -> Sequence[ScanIssue]:
        if tools.index.store.read_only:
            say(f"{tools.index.store.where} cannot be written: evaluating its current content")
            return ()
        with Progress() as progress:
            done = await tools.index.update(vectors=with_vectors, progress=progress)
        if done.error is not None:
            raise done.error
        report = done.report or SyncReport()
        print_sync(report, str(self._database or "a temporary index"), embedded=done.embedded)
        for tool_id, reason in (await tools.index.refused()).items() if with_vectors else ():
            say(f"  no vector for {tool_id}: {reason}")
        return report.issues

    def _report_unknown(self, unknown: UnknownGold) -> None:
        if unknown.count == unknown.total:
            raise SettingsError(
                "--queries",
                f"no gold id is among the tools of {self._roots}; use ids as printed by "
                f"pytools-hybrid search --output json:{unknown}",
            )
        if unknown.count:
            for line in f"warning: {unknown.sentence}:{unknown}".splitlines():
                say(line)

    async def run(
        self,
        configuration: Configuration,
        queries: Sequence[EvaluationQuery],
        database: Path,
        recall_at: Sequence[int],
    ) -> Figures:
        """Run every query in one configuration, on a copy of the index, and measure the answers."""
        limit = max(DEPTH, *recall_at)
        responses: dict[str, SearchResponse] = {}
        milliseconds: list[float] = []
        async with self._opened(configuration.settings, database) as tools:
            for text in _WARM_UP:
                await tools.search(text, mode=configuration.mode, limit=1)
            with Progress() as progress:
                for done, query in enumerate(queries):
                    progress(configuration.name, done, len(queries))
                    # A repeated query would be answered from the cache.
                    if query.text in responses:
                        continue
                    started = time.perf_counter()
                    response = await tools.search(query.text, mode=configuration.mode, limit=limit)
                    milliseconds.append(1000 * (time.perf_counter() - started))
                    responses[query.text] = response
        notes = Counter(note for response in responses.values() for note in response.notes)
        for note, count in notes.items():
            say(f"{configuration.name}: {count} of {len(responses)} searches: {note}")
        hits = {
            text: [Hit(id=str(found.entry.id), score=found.score) for found in response.tools]
            for text, response in responses.items()
        }
        return measure(
            configuration,
            queries,
            {query.id: hits[query.text] for query in queries},
            recall_at=recall_at,
            milliseconds=milliseconds,
            degraded=sum(bool(response.lost) for response in responses.values()),
        )


def copy_index(tools: ToolSearch, target: Path) -> None:
    """Copy the files of an index in their current state, even if others write to them."""
    store = tools.index.store
    database = Path(store.where)
    # SQLite cannot take locks on a read-only medium, and does not need them.
    options = "mode=ro&immutable=1" if store.read_only else "mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    for path, copied in (
        (database, target),
        (ToolIndex.files(database).durable, ToolIndex.files(target).durable),
    ):
        if not path.exists():
            continue
        # Python's sqlite3 would drop apsw's locks on the file when it closes it.
        source = apsw.Connection(f"{path.as_uri()}?{options}", flags=flags)
        with (
            closing(source),
            closing(apsw.Connection(str(copied))) as copy,
            copy.backup("main", source, "main") as backup,
        ):
            while not backup.done:
                backup.step(_PAGES)


# Gold tools that are not in the index


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGold:
    """Gold ids that are not in the index.

    In every measure they count as not found, because a search cannot find a tool that is left out.

    Attributes:
        count: The number of such ids.
        total: The number of all gold ids.
        queries: The number of queries with such an id.
        examples: The first of them, with the reasons.
    """

    count: int
    total: int
    queries: int
    examples: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """A sentence on the number of these ids, and that their queries count nevertheless."""
        are, them = ("is", "it") if self.count == 1 else ("are", "them")
        which = (
            f"query that names {them} counts"
            if self.queries == 1
            else f"{self.queries} queries that name {them} count"
        )
        return (
            f"{self.count} of {self.total} gold ids {are} not in the index; "
            f"the {which} nevertheless"
        )

    def __str__(self) -> str:
        listed = "".join(f"\n  {id_}: {reason}" for id_, reason in self.examples.items())
        more = self.count - len(self.examples)
        return listed + (f"\n  … and {more} more" if more else "")


def unknown_gold(
    queries: Sequence[EvaluationQuery],
    known: Iterable[str],
    issues: Sequence[ScanIssue],
    layouts: Sequence[Layout],
) -> UnknownGold:
    """Find gold ids that are not in the index, with reasons as far as the scan can tell."""
    known = frozenset(known)
    every = dict.fromkeys(id_ for query in queries for id_ in query.gold)
    unknown = [id_ for id_ in every if id_ not in known]
    left_out = {issue.path: issue.detail for issue in issues}
    return UnknownGold(
        count=len(unknown),
        total=len(every),
        queries=sum(not known.issuperset(query.gold) for query in queries),
        examples={id_: _why_unknown(id_, left_out, layouts) for id_ in unknown[:_EXAMPLES]},
    )


def _why_unknown(id_: str, left_out: Mapping[str, str], layouts: Sequence[Layout]) -> str:
    try:
        tool = ToolId.parse(id_)
    except ToolScanError as error:
        return str(error)
    for layout in layouts:
        if layout.source == tool.source:
            path = layout.path_of(tool.category, tool.name)
            if path in left_out:
                return f"{path} was left out: {left_out[path]}"
            if layout.holds_several:
                return f"{path} contains no tool {tool.name}"
            return f"no tool at {path}"
    sources = ", ".join(layout.source for layout in layouts)
    return f"the layouts have no source {tool.source!r}, only {sources}"


def _look_up(
    tools: ToolSearch, queries: Sequence[EvaluationQuery], issues: Sequence[ScanIssue]
) -> tuple[int, UnknownGold]:
    """Count the tools, and find gold ids that are not among them."""
    gold = {id_ for query in queries for id_ in query.gold}
    issues = [replace(it, path=tools.roots.resolve(it.path)[1]) for it in issues]
    with tools.index.store.reading() as reader:
        known = reader.entries([*gold])
        return reader.coverage("").tools, unknown_gold(queries, known, issues, tools.roots.layouts)
