"""Learning a map of query vectors from a user's own requests, and measuring whether it helps.

`recorded` finds requests in the usage record, `fit` learns from requests, and `tune` measures
whether that helps other requests.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from toolindex import ToolIndex, finish_in_thread

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import temporary_folder
from pytools_hybrid.index import configured_embedder
from pytools_hybrid.learn.evaluate import Configuration, EvaluationQuery, Evaluator, copy_index
from pytools_hybrid.learn.figures import BEST_BY, EvaluationReport, measure
from pytools_hybrid.search import SearchMode, ToolSearch, Tuning, write_tuning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolembed import Embedder
    from toolindex import OutcomeRecord, SearchRecord
    from toolrank.metrics import Interval

    from pytools_hybrid.learn.figures import Figures
    from pytools_hybrid.settings import Roots, Settings

    Matrix = np.ndarray[Any, Any]

FEWEST = 10
"""The minimum number of requests to learn from."""

# A found tool that is used within this time counts as the right one.
_SECONDS = 600.0
_FOLDS = 5
_RECALL_AT = (1, 5)
# Chosen on the dev halves of four sets: docs/decisions/0024.
_SHRINKAGE = 60.0
_TEMPERATURE = 0.05
_STEPS = 40
_RATE = 6e-3
# Longer vectors are projected onto the principal directions of requests and tools.
_DIRECTIONS = 256
_FACTORS = 64


def recorded(
    searches: Iterable[SearchRecord], outcomes: Iterable[OutcomeRecord]
) -> list[EvaluationQuery]:
    """Return the requests whose right tools are known, without duplicates.

    An outcome without a search id belongs to the last search that found its tool in the ten minutes
    before.
    """
    asked = list(searches)
    by_id = {search.id: search for search in asked}
    answers: dict[str, dict[str, None]] = {}
    for outcome in outcomes:
        if not outcome.success:
            continue
        search = by_id.get(outcome.search_id or "") or next(
            (
                it
                for it in reversed(asked)
                if 0 <= outcome.at - it.at <= _SECONDS and outcome.tool_id in it.results
            ),
            None,
        )
        if search is not None and search.query.strip():
            answers.setdefault(search.query.strip(), {})[outcome.tool_id] = None
    return [
        EvaluationQuery(id=f"r{number}", text=text, gold=tuple(gold))
        for number, (text, gold) in enumerate(answers.items(), 1)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """A tuning and its measured benefit.

    Attributes:
        tuning: The tuning learned from all requests.
        report: The figures without and with tuning, where each request is tested on a tuning
            learned from others.
        difference: The improvement.
    """

    tuning: Tuning
    report: EvaluationReport
    difference: Interval

    @property
    def is_better(self) -> bool:
        """Whether the improvement is significant."""
        return self.difference.low > 0

    def __str__(self) -> str:
        change, interval = self.difference.mean, self.difference
        return (
            f"{BEST_BY} {self.tuning.before:.3f} → {self.tuning.after:.3f} ({change:+.3f}; 95 % "
            f"interval {interval.low:+.3f} to {interval.high:+.3f}), on queries that were not "
            "learned from"
        )


@dataclass(frozen=True, slots=True)
class _Data:
    """Vectors of usable requests and of tools, and which tools answer which requests."""

    queries: Matrix
    tools: Matrix
    right: list[list[int]]

    def fitted(self, rows: Sequence[int], model_id: str) -> Tuning:
        usable = [row for row in rows if self.right[row]]
        if not usable:
            raise SettingsError("--queries", "none of the right tools has a vector")
        down, up = fit(self.queries[usable], self.tools, [self.right[row] for row in usable])
        return Tuning(
            model_id=model_id,
            down=tuple(down.tolist()),
            up=tuple(up.tolist()),
            requests=len(usable),
            before=0.0,
            after=0.0,
        )


async def tune(
    settings: Settings,
    roots: Roots,
    requests: Sequence[EvaluationQuery],
    *,
    embedder: Embedder | None = None,
) -> TuningResult:
    """Learn from requests, and measure the benefit by cross validation; nothing is written.

    Raises:
        SettingsError: There are too few requests, or no model.
        EmbeddingError: The model returned no vectors.
        DatabaseError: The index cannot be read or written.
        RootUnreadableError: A tree cannot be listed.
    """
    model = embedder or configured_embedder(settings)
    if model is None:
        raise SettingsError("--model", "the model is 'none', so there are no vectors to tune")
    if len(requests) < FEWEST:
        raise SettingsError(
            "--queries",
            f"{len(requests)} queries are too few to learn from; name a file with at least "
            f"{FEWEST}",
        )
    if settings.server is not None:
        raise SettingsError("--database", "it is a server; tune learns from an index in a file")
    database = settings.resolved_database(roots)
    untuned = Configuration(
        name="untuned",
        mode=SearchMode.HYBRID,
        settings=settings.model_copy(update={"tuning": Path("none")}),
        selected_by={},
    )
    evaluator = Evaluator(roots, database=database, embedder=model)
    report = await evaluator.evaluate(requests, [untuned], recall_at=_RECALL_AT)
    before = report.figures[0]
    with temporary_folder() as folder:
        copy = folder / "index.db"
        opened = settings.model_copy(update={"database": database})
        async with ToolSearch(roots, opened, embedder=model, refresh=False) as tools:
            await finish_in_thread(copy_index, tools, copy)
        data = await _data(requests, copy, model)
        folds = _folds(requests)
        answered = [
            await _answer(evaluator, untuned, data, requests, rows, copy, model.model_id)
            for rows in folds
        ]
    after = measure(
        replace(untuned, name="tuned", selected_by={"PYTOOLS_TUNING": "FILE"}),
        requests,
        dict(chain.from_iterable(each.answers.items() for each in answered)),
        recall_at=_RECALL_AT,
        milliseconds=[each.latency.p50 for each in answered],
        degraded=sum(each.degraded for each in answered),
    )
    learned = await asyncio.to_thread(data.fitted, range(len(requests)), model.model_id)
    return TuningResult(
        tuning=replace(
            learned,
            before=before.evaluation.mean(BEST_BY),
            after=after.evaluation.mean(BEST_BY),
        ),
        report=replace(report, figures=(before, after)),
        difference=after.evaluation.difference(before.evaluation, BEST_BY),
    )


async def _answer(
    evaluator: Evaluator,
    untuned: Configuration,
    data: _Data,
    requests: Sequence[EvaluationQuery],
    rows: Sequence[int],
    database: Path,
    model_id: str,
) -> Figures:
    """Answer some requests with a tuning learned from all others."""
    others = [row for row in range(len(requests)) if row not in set(rows)]
    file = database.with_name("tuned")
    write_tuning(file, await asyncio.to_thread(data.fitted, others, model_id))
    settings = untuned.settings.model_copy(update={"tuning": file})
    configuration = replace(untuned, name="tuned", settings=settings)
    return await evaluator.run(configuration, [requests[row] for row in rows], database, _RECALL_AT)


async def _data(requests: Sequence[EvaluationQuery], database: Path, model: Embedder) -> _Data:
    queries = np.array([await model.embed_query(request.text) for request in requests], "f8")

    def stored() -> dict[str, bytes]:
        with ToolIndex(database, read_only=True) as index, index.reading() as reader:
            return reader.vectors(model.model_id, dimensions=queries.shape[1])

    vectors = await asyncio.to_thread(stored)
    tools = np.array([np.frombuffer(vector, "<f4") for vector in vectors.values()], "f8")
    places = {id_: place for place, id_ in enumerate(vectors)}
    right = [[places[id_] for id_ in request.gold if id_ in places] for request in requests]
    return _Data(_unit(queries), _unit(tools), right)


def _folds(requests: Sequence[EvaluationQuery]) -> list[list[int]]:
    """Divide requests at random, but reproducibly; those with the same words stay together."""
    texts = {" ".join(request.text.casefold().split()): None for request in requests}
    ordered = sorted(texts, key=lambda text: sha256(text.encode("utf-8", "replace")).digest())
    fold = {text: place % _FOLDS for place, text in enumerate(ordered)}
    divided: list[list[int]] = [[] for _ in range(_FOLDS)]
    for row, request in enumerate(requests):
        divided[fold[" ".join(request.text.casefold().split())]].append(row)
    return [rows for rows in divided if rows]


def _unit(rows: Matrix) -> Matrix:
    if not rows.size:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = rows / np.where(lengths, lengths, 1)
    return unit


def fit(queries: Matrix, tools: Matrix, right: Sequence[Sequence[int]]) -> tuple[Matrix, Matrix]:
    """Return the factors of a map that brings requests closer to the tools that answer them.

    The map minimizes the cross entropy of the right tools among all tools, plus its distance from
    the identity, so it changes less the fewer requests there are.

    Args:
        queries: A unit vector for each request.
        tools: A unit vector for each tool.
        right: For each request, the indices of the tools that answer it, at least one.

    Returns:
        `down` and `up`: a vector v becomes v + (v · down) · up.
    """
    count = len(queries)
    # Single precision halves the time.
    queries, tools = queries.astype("f4"), tools.astype("f4")
    wanted = np.zeros((count, len(tools)), "f4")
    for row, places in enumerate(right):
        wanted[row, list(places)] = 1 / len(places)
    directions = _directions(queries, tools)
    asked, offered = queries @ directions, tools @ directions
    # The map does not change components in other directions.
    rest = queries @ tools.T - asked @ offered.T
    rest_squared = np.maximum((queries**2).sum(1) - (asked**2).sum(1), 0)
    change = np.zeros((len(directions.T),) * 2, "f4")
    mean, square = np.zeros_like(change), np.zeros_like(change)
    # Adam (Kingma & Ba 2015).
    for step in range(1, _STEPS + 1):
        moved = asked + asked @ change
        lengths = np.sqrt(rest_squared + (moved**2).sum(1))[:, None]
        cosines = (rest + moved @ offered.T) / lengths
        slopes = (_softmax(cosines / _TEMPERATURE) - wanted) / (_TEMPERATURE * count)
        of_moved = (
            slopes @ offered - (slopes * cosines).sum(1, keepdims=True) * moved / lengths
        ) / lengths
        gradient = asked.T @ of_moved + 2 * _SHRINKAGE / count * change
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        rate = _RATE * (1 - 0.9 * step / _STEPS)
        change -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    left, sizes, right_ = np.linalg.svd(change)
    factors = min(_FACTORS, len(sizes))
    down: Matrix = (directions @ left[:, :factors] * np.sqrt(sizes[:factors])).T
    up: Matrix = np.sqrt(sizes[:factors])[:, None] * right_[:factors] @ directions.T
    return down, up


def _directions(queries: Matrix, tools: Matrix) -> Matrix:
    dimensions = queries.shape[1]
    wanted = min(_DIRECTIONS, len(queries) + len(tools))
    if dimensions <= wanted:
        return np.eye(dimensions, dtype="f4")
    spread = queries.T @ queries / len(queries) + tools.T @ tools / len(tools)
    found: Matrix = np.linalg.eigh(spread)[1][:, -wanted:]
    return found


def _softmax(scores: Matrix) -> Matrix:
    weights = np.exp(scores - scores.max(1, keepdims=True))
    shares: Matrix = weights / weights.sum(1, keepdims=True)
    return shares
