"""Running every query in every configuration, on temporary indexes."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import apsw
from toolindex import SyncReport, ToolIndex, finish_in_thread
from toolrank import Hit

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import temporary_folder
from pytools_hybrid.index import configured_embedder
from pytools_hybrid.jobs.evaluate._figures import DEPTH, Figures, measure
from pytools_hybrid.jobs.evaluate._gold import UnknownGold, unknown_gold
from pytools_hybrid.search import ToolSearch
from pytools_hybrid.terminal import Progress, print_sync, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolembed import Embedder
    from toolscan import ScanIssue

    from pytools_hybrid.jobs.evaluate._configurations import Configuration
    from pytools_hybrid.jobs.evaluate._queries import EvaluationQuery
    from pytools_hybrid.search import SearchResponse
    from pytools_hybrid.settings import Roots, Settings

# The first searches load the model and the vectors, which a server only does once.
_WARM_UP = ("warm up", "warm up twice", "warm up three times", "warm up four times")

# The number of pages copied at a time, so that other processes can write in between.
_PAGES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """The result of an evaluation.

    Attributes:
        model: The embedding models, as named in settings.
        by: The key that groups the queries, or None.
        unknown: The gold ids that are not in the index.
    """

    queries: int
    tools: int
    model: str
    recall_at: tuple[int, ...]
    by: str | None
    figures: tuple[Figures, ...]
    unknown: UnknownGold


class Evaluator:
    """Evaluates searches of a tree, or of several as one, and reports progress on stderr.

    Every configuration searches its own copy of the index, so that none benefits from another's
    cached vectors, and the usage record does not contain the queries.

    Args:
        database: The index to bring up to date and to copy, or None for a temporary one.
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
        with temporary_folder() as folder:
            database = self._database or folder / "index.db"
            by_model: dict[str, list[Configuration]] = {}
            for each in compared:
                by_model.setdefault(each.settings.embedding_model, []).append(each)
            for alike in by_model.values():
                async with self._opened(alike[0].settings, database) as tools:
                    with_vectors = any(tools.uses_vectors(each.mode) for each in alike)
                    issues = await self._index(tools, with_vectors=with_vectors)
                    if not gold:
                        gold += [await finish_in_thread(_look_up, tools, queries, issues)]
                        self._tell(gold[0][1])
                    for configuration in alike:
                        with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
                            copy = Path(own, "index.db")
                            await finish_in_thread(copy_index, tools, copy)
                            figures.append(await self.ask(configuration, queries, copy, recall_at))
        ((count, unknown),) = gold
        return EvaluationReport(
            queries=len(queries),
            tools=count,
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

    async def _index(self, tools: ToolSearch, *, with_vectors: bool) -> Sequence[ScanIssue]:
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

    def _tell(self, unknown: UnknownGold) -> None:
        if unknown.count == unknown.total:
            raise SettingsError(
                "--queries",
                f"no gold id is among the tools of {self._roots}; use ids as printed by "
                f"pytools-hybrid search --output json:{unknown}",
            )
        if unknown.count:
            for line in f"warning: {unknown.sentence}:{unknown}".splitlines():
                say(line)

    async def ask(
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
                    if query.text not in responses:
                        started = time.perf_counter()
                        response = await tools.search(
                            query.text, mode=configuration.mode, limit=limit
                        )
                        milliseconds.append(1000 * (time.perf_counter() - started))
                        responses[query.text] = response
        notes = Counter(note for response in responses.values() for note in response.notes)
        for note, count in notes.items():
            say(f"{configuration.name}: {count} of {len(responses)} searches: {note}")
        return measure(
            configuration,
            queries,
            {
                query.id: [
                    Hit(id=str(found.entry.id), score=found.score)
                    for found in responses[query.text].tools
                ]
                for query in queries
            },
            recall_at=recall_at,
            milliseconds=milliseconds,
            degraded=sum(bool(response.lost) for response in responses.values()),
        )


def _look_up(
    tools: ToolSearch, queries: Sequence[EvaluationQuery], issues: Sequence[ScanIssue]
) -> tuple[int, UnknownGold]:
    """Count the tools, and find gold ids that are not among them."""
    gold = {id_ for query in queries for id_ in query.gold}
    issues = [replace(it, path=tools.roots.locate(it.path)[1]) for it in issues]
    with tools.index.store.reading() as reader:
        known = reader.entries([*gold])
        return (
            reader.coverage("").tools,
            unknown_gold(queries, known, issues, tools.roots.layouts),
        )


def copy_index(tools: ToolSearch, target: Path) -> None:
    """Copy the index in its current state, even if others write to it."""
    store = tools.index.store
    copy_files(Path(store.where), target, is_fixed=store.read_only)


def copy_files(database: Path, target: Path, *, is_fixed: bool = False) -> None:
    """Copy the files of an index in their current state; `is_fixed` if they cannot change."""
    # SQLite cannot take locks on a read-only medium, and does not need them.
    options = "mode=ro&immutable=1" if is_fixed else "mode=ro"
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
