"""The results of all methods on all collections, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata

from measure import Failure, Run
from peers import distributions
from scoring import Score, mean_over, score
from sets import Collection
from tables import kinds_table, table

__all__ = ["Judged", "json_report", "judge", "mean_section", "section", "versions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """All methods on one collection.

    Attributes:
        name: The collection's name.
        title: Its heading, with its size.
        kinds: Kind of query → number of queries; empty if the queries have none.
        scores: Method → its score.
        by_kind: Method → kind → its score.
    """

    name: str
    title: str
    kinds: Mapping[str, int]
    scores: Mapping[str, Score | Failure]
    by_kind: Mapping[str, Mapping[str, Score] | Failure]


def judge(collection: Collection, runs: Mapping[str, Run | Failure]) -> Judged:
    """Score the runs of a collection."""
    kinds = Counter(query.kind for query in collection.queries if query.kind)
    held = {tool.id for tool in collection.tools}
    lost = {id_ for query in collection.queries for id_ in query.gold} - held
    title = f"{collection.name}: {len(held)} tools, {len(collection.queries)} queries"
    return Judged(
        name=collection.name,
        title=f"{title}, {len(lost)} right tools that no index holds" if lost else title,
        kinds=kinds,
        scores={
            method: run if isinstance(run, Failure) else score(run, collection)
            for method, run in runs.items()
        },
        by_kind={
            method: run
            if isinstance(run, Failure)
            else {kind: score(run, collection, kind=kind) for kind in kinds}
            for method, run in runs.items()
        },
    )


def section(judged: Judged) -> str:
    """Return the section of one collection."""
    parts = [f"### {judged.title}", table(judged.scores)]
    if judged.kinds:
        parts += ["hit@3 / NDCG@10 by kind:", kinds_table(judged.kinds, judged.by_kind)]
    return "\n\n".join(parts) + "\n"


def mean_section(every: Sequence[Judged]) -> str:
    """Return the section with the means over the sets."""
    return f"### mean over {len(every)} sets\n\n{table(_means(every))}\n"


def versions(methods: Sequence[str]) -> dict[str, str]:
    """Return the version of each distribution that the methods come from."""
    found = {}
    for name in dict.fromkeys(name for method in methods for name in distributions(method)):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def json_report(sets: Sequence[Judged], trees: Sequence[Judged]) -> dict[str, object]:
    """Return all figures, for other programs."""
    return {
        "sets": {judged.name: _figures(judged) for judged in sets},
        "mean": {method: asdict(row) for method, row in _means(sets).items()} if sets else {},
        "trees": {judged.name: _figures(judged) for judged in trees},
    }


def _figures(judged: Judged) -> dict[str, object]:
    return {
        "title": judged.title,
        "methods": {method: asdict(row) for method, row in judged.scores.items()},
        "kinds": {
            method: asdict(row)
            if isinstance(row, Failure)
            else {kind: asdict(one) for kind, one in row.items()}
            for method, row in judged.by_kind.items()
        },
    }


def _means(every: Sequence[Judged]) -> dict[str, Score | Failure]:
    means: dict[str, Score | Failure] = {}
    for method in every[0].scores:
        rows = {judged.name: judged.scores[method] for judged in every}
        scores = [row for row in rows.values() if isinstance(row, Score)]
        failed = [f"{name}: {row.reason}" for name, row in rows.items() if isinstance(row, Failure)]
        means[method] = Failure("; ".join(failed)) if failed else mean_over(scores)
    return means
