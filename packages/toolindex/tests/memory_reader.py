"""One state of the store in memory, and the tools that are found in it."""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from toolindex import (
    Coverage,
    OutcomeRecord,
    SearchRecord,
    ToolEntry,
    ToolFilter,
    ToolOutcomes,
    VectorError,
    name_key,
)
from toolscan import ToolRecord

from .memory_usage import latencies_of, percentile

Vector = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """All that the store holds at one moment; a change makes another."""

    records: Mapping[str, ToolRecord] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vectors: Mapping[str, Mapping[str, Vector]] = field(default_factory=dict)
    searches: Mapping[str, SearchRecord] = field(default_factory=dict)
    outcomes: tuple[OutcomeRecord, ...] = ()
    generation: int = 1
    usage_generation: int = 1
    reader_version: str | None = None
    is_complete: bool = False
    root: str | None = None


@dataclass(frozen=True)
class Found:
    """A candidate."""

    id: str
    score: float


class MemoryReader:
    """One state of the store."""

    def __init__(self, state: State) -> None:
        self.state = state

    def lexical(self, query: str, *, where: ToolFilter, depth: int) -> list[Found]:
        wanted = words_of(query)
        return self.best(
            (
                Found(str(record.id), len(wanted & self.words_about(record)))
                for record in self.allowed(where)
            ),
            depth,
        )

    def nearest(
        self, vector: Sequence[float], *, model_id: str, where: ToolFilter, depth: int
    ) -> list[Found]:
        kept = self.kept(model_id, len(vector))
        query = unit(vector, model_id, len(vector))
        return self.best(
            (
                Found(str(record.id), dot(query, kept[record.text_hash]))
                for record in self.allowed(where)
                if record.text_hash in kept
            ),
            depth,
            least=-math.inf,
        )

    def with_vectors(
        self, ids: Collection[str], *, model_id: str, dimensions: int | None = None
    ) -> set[str]:
        kept = self.kept(model_id, dimensions)
        found = {id_ for id_, record in self.state.records.items() if record.text_hash in kept}
        return found & set(ids)

    def named(self, query: str, *, where: ToolFilter) -> list[Found]:
        wanted = name_key(query)
        return self.best(
            (
                Found(str(record.id), 1.0)
                for record in self.allowed(where)
                if str(record.id) == query
                or wanted
                in (name_key(record.id.name), name_key(record.id.category + record.id.name))
            ),
            len(self.state.records),
        )

    def fuzzy(self, query: str, *, where: ToolFilter, depth: int) -> list[Found]:
        wanted = words_of(query)
        return self.best(
            (
                Found(str(record.id), likeness(wanted, self.words_about(record)))
                for record in self.allowed(where)
            ),
            depth,
        )

    def words_about(self, record: ToolRecord) -> set[str]:
        aliases = self.state.aliases.get(str(record.id), ())
        return words_of(" ".join([str(record.id), record.description, *aliases]))

    def corrections(self, query: str) -> dict[str, str]:
        return {}

    def terms(self, query: str, ids: Sequence[str]) -> dict[str, dict[str, float]]:
        wanted = words_of(query)
        return {
            id_: dict.fromkeys(sorted(wanted & self.words_about(record)), 1.0)
            for id_ in ids
            if (record := self.state.records.get(id_)) is not None
        }

    def lexical_coverage(self, query: str, ids: Sequence[str]) -> dict[str, float]:
        wanted = words_of(query)
        return {
            id_: len(wanted & self.words_about(record)) / len(wanted)
            for id_ in ids
            if wanted and (record := self.state.records.get(id_)) is not None
        }

    def lexical_scale(self, query: str) -> float:
        return float(len(words_of(query)))

    def outcomes(self) -> dict[str, ToolOutcomes]:
        known: dict[str, ToolOutcomes] = {}
        for id_ in {outcome.tool_id for outcome in self.state.outcomes}:
            own = [outcome for outcome in self.state.outcomes if outcome.tool_id == id_]
            successes, latencies = sum(it.success for it in own), latencies_of(own)
            known[id_] = ToolOutcomes(
                successes=successes,
                failures=len(own) - successes,
                timed=len(latencies),
                mean_latency_ms=sum(latencies) / len(latencies) if latencies else None,
            )
        return known

    def best(self, found: Iterable[Found], depth: int, *, least: float = 0.0) -> list[Found]:
        hits = [hit for hit in found if hit.score > least]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:depth]

    def entries(self, ids: Sequence[str]) -> dict[str, ToolEntry]:
        found = {id_: self.state.records[id_] for id_ in ids if id_ in self.state.records}
        return {
            id_: ToolEntry(
                id=record.id,
                path=record.path,
                signature=record.signature,
                summary=record.summary,
                description=record.description,
                parameters=record.parameters,
                tags=record.tags,
                aliases=self.state.aliases.get(id_, ()),
            )
            for id_, record in found.items()
        }

    def ids(self, where: ToolFilter) -> list[str]:
        return sorted(str(record.id) for record in self.allowed(where))

    def changed_at(self) -> float | None:
        return time.time() if self.state.records else None

    def categories(self, where: ToolFilter) -> dict[tuple[str, str], int]:
        allowed = [(record.id.source, record.id.category) for record in self.allowed(where)]
        return dict(Counter(allowed))

    def kept(self, model_id: str, dimensions: int | None) -> Mapping[str, Vector]:
        now = self.state.vectors.get(model_id, {})
        if dimensions in (None, len(next(iter(now.values()), ()))):
            return now
        return self.state.vectors.get(f"{model_id} of {dimensions}", {})

    def coverage(self, model_id: str, *, dimensions: int | None = None) -> Coverage:
        kept = self.kept(model_id, dimensions)
        return Coverage(
            tools=len(self.state.records),
            vectors=sum(record.text_hash in kept for record in self.state.records.values()),
            dimensions=len(next(iter(kept.values()), ())),
        )

    def models(self) -> list[str]:
        return [model_id for model_id in self.state.vectors if " of " not in model_id]

    def generation(self) -> int:
        return self.state.generation

    def usage_generation(self) -> int:
        return self.state.usage_generation

    def is_complete(self) -> bool:
        return self.state.is_complete

    def allowed(self, where: ToolFilter) -> list[ToolRecord]:
        return [record for record in self.state.records.values() if self.admits(where, record)]

    def admits(self, where: ToolFilter, record: ToolRecord) -> bool:
        prefix = where.path_prefix
        return (
            where.source in (None, record.id.source)
            and (not where.categories or record.id.category in where.categories)
            and set(where.tags) <= set(record.tags)
            and where.passes_id(str(record.id))
            and (prefix is None or f"{record.path}/".startswith(f"{prefix}/"))
            and self.is_good_enough(where, str(record.id))
            and self.is_fast_enough(where, str(record.id))
        )

    def is_good_enough(self, where: ToolFilter, id_: str) -> bool:
        results = [outcome.success for outcome in self.state.outcomes if outcome.tool_id == id_]
        if where.min_success_rate is None:
            return True
        if len(results) < where.min_observations:
            return where.unknown == "include"
        return sum(results) / len(results) >= where.min_success_rate

    def is_fast_enough(self, where: ToolFilter, id_: str) -> bool:
        latencies = latencies_of(o for o in self.state.outcomes if o.tool_id == id_)
        if where.max_latency_ms is None:
            return True
        if len(latencies) < where.min_observations:
            return where.unknown == "include"
        return (percentile(latencies, 50) or 0.0) <= where.max_latency_ms


def words_of(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text.lower()).split())


def likeness(wanted: set[str], known: set[str]) -> int:
    return sum(
        any(it.startswith(word) for it in known) or bool(get_close_matches(word, known, 1, 0.75))
        for word in wanted
    )


def unit(vector: Sequence[float], model_id: str, dimensions: int) -> Vector:
    length = math.hypot(*array("f", vector))
    if len(vector) != dimensions or not 0 < length < math.inf:
        raise VectorError(model_id, f"gave {vector} where {dimensions} finite values were expected")
    return tuple(value / length for value in vector)


def dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
