"""A store of tools in memory, as somebody else would write one: public names only, no SQL."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from toolindex import (
    ForeignRootError,
    PruneReport,
    StoredEntry,
    StoredFiles,
    SyncReport,
    ToolIndexError,
    plan_sync,
)
from toolscan import ScanReport, embedding_text

from .memory_reader import MemoryReader, State, Vector, unit
from .memory_usage import MemoryUsage


@dataclass
class Place:
    """What the stores of one place share."""

    state: State = field(default_factory=State)
    query_vectors: dict[tuple[str, str], Vector] = field(default_factory=dict)
    refusals: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    writing: threading.RLock = field(default_factory=threading.RLock)
    locks: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )


class MemoryQueryVectors:
    """Vectors of queries."""

    def __init__(self, kept: dict[tuple[str, str], Vector]) -> None:
        self.kept = kept

    def get(self, model_id: str, query: str, *, dimensions: int | None = None) -> Vector | None:
        vector = self.kept.get((model_id, query))
        return vector if vector and dimensions in (None, len(vector)) else None

    def put(
        self, model_id: str, vectors: Mapping[str, Sequence[float]], *, used: Collection[str] = ()
    ) -> None:
        units = {
            (model_id, query): unit(vector, model_id, len(vector))
            for query, vector in vectors.items()
        }
        self.kept.update(units)


class MemoryLease:
    """The right to one kind of work, among the threads of this process."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock

    def acquire(self, *, timeout: float) -> bool:
        return self.lock.acquire(timeout=timeout)

    def release(self) -> None:
        self.lock.release()


class MemoryStore:
    """Holds all in one value, which a change replaces: a look keeps the one it began with.

    Stores of one place are like processes on one database.
    """

    read_only = False
    reader_class = MemoryReader

    def __init__(self, place: Place | None = None) -> None:
        self.place = place or Place()
        self.is_closed = False
        self.usage = MemoryUsage(self)
        self.query_vectors = MemoryQueryVectors(self.place.query_vectors)

    @property
    def state(self) -> State:
        return self.place.state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True

    @contextmanager
    def changing(self) -> Generator[State]:
        """Return the state, which nobody else changes in the block."""
        with self.place.writing:
            self.check_open()
            yield self.state

    def change(self, **values: Any) -> None:
        self.place.state = replace(self.state, **values)

    def check_open(self) -> None:
        if self.is_closed:
            raise ToolIndexError("the store has been closed; make another")

    def lease(self, purpose: str) -> MemoryLease:
        return MemoryLease(self.place.locks[purpose])

    def bind(self, root: str) -> None:
        with self.changing() as state:
            if state.root not in (None, root) and Path(state.root).is_dir():
                raise ForeignRootError("memory", root=state.root)
            self.change(root=root)

    def stored(self, *, reader_version: str, within: Collection[str] | None = None) -> StoredFiles:
        self.check_open()
        state = self.state
        return StoredFiles.of(
            (
                StoredEntry(
                    id=id_, path=record.path, file_hash=record.file_hash, stamp=record.stamp
                )
                for id_, record in state.records.items()
                if within is None or is_within(record.path, within)
            ),
            generation=state.generation,
            within=within,
            is_current=not state.records or state.reader_version == reader_version,
            is_complete=state.is_complete,
        )

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
        stored: StoredFiles | None = None,
    ) -> SyncReport:
        with self.changing() as state:
            if stored is None or stored.generation != state.generation:
                stored = self.stored(reader_version=reader_version, within=within)
            reread = not stored.is_current
            plan = plan_sync(stored.entries, scanned, within=within, reread=reread)
            touched = [
                replace(state.records[id_], stamp=stamp) for id_, stamp in plan.touched.items()
            ]
            changed = [*plan.added, *plan.updated, *plan.reread, *touched]
            kept = {id_: r for id_, r in state.records.items() if id_ not in plan.removed}
            if changed or plan.removed:
                records = kept | {str(record.id): record for record in changed}
                aliases = {id_: texts for id_, texts in state.aliases.items() if id_ in records}
                self.change(records=records, aliases=aliases, generation=state.generation + 1)
            if within is None and not plan.rescan:
                self.change(reader_version=reader_version, is_complete=True)
            elif not reread and not state.is_complete:
                self.change(reader_version=reader_version)
        return SyncReport(
            added=len(plan.added),
            updated=len(plan.updated) + len(plan.reread),
            removed=len(plan.removed),
            unchanged=plan.unchanged + len(plan.touched),
            issues=scanned.issues,
            rescan=plan.rescan,
        )

    def annotate(self, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str] = ()) -> int:
        with self.changing() as state:
            wanted = {
                id_: tuple(texts)
                for id_, texts in aliases.items()
                if id_ in state.records and id_ not in keep and texts
            }
            kept = {id_: texts for id_, texts in state.aliases.items() if id_ in keep}
            after = kept | wanted
            ids = {*after, *state.aliases} & {*state.records}
            changed = sum(state.aliases.get(id_) != after.get(id_) for id_ in ids)
            if changed:
                self.change(aliases=after, generation=state.generation + 1)
        return changed

    def pending(
        self, model_id: str, *, limit: int, among: Collection[str] | None = None
    ) -> dict[str, str]:
        self.check_open()
        state = self.state
        done = {*state.vectors.get(model_id, {}), *self.place.refusals[model_id]}
        texts = {
            record.text_hash: embedding_text(
                record.id,
                record.description,
                (p.alias or p.name for p in record.parameters),
                tags=record.tags,
            )
            for record in state.records.values()
            if record.text_hash not in done and (among is None or record.text_hash in among)
        }
        return dict(list(texts.items())[:limit])

    def count_pending(self, model_id: str) -> int:
        return len(self.pending(model_id, limit=len(self.state.records)))

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        with self.changing():
            self.place.refusals[model_id].update(reasons)

    def refused(self, model_id: str) -> dict[str, str]:
        reasons = self.place.refusals[model_id]
        return {
            id_: reasons[record.text_hash]
            for id_, record in self.state.records.items()
            if record.text_hash in reasons
        }

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        with self.changing() as state:
            kept = state.vectors.get(model_id, {})
            length = len(next(iter([*kept.values(), *vectors.values()]), ()))
            units = {hash_: unit(vector, model_id, length) for hash_, vector in vectors.items()}
            for hash_ in units:
                self.place.refusals[model_id].pop(hash_, None)
            if units:
                self.change(
                    vectors={**state.vectors, model_id: {**kept, **units}},
                    generation=state.generation + 1,
                )

    def use_model(self, model_id: str, *, dimensions: int | None = None) -> bool:
        with self.changing() as state:
            now = state.vectors.get(model_id, {})
            length = len(next(iter(now.values()), ()))
            beside = f"{model_id} of {dimensions}"
            if beside in state.vectors or (now and dimensions not in (None, length)):
                vectors = {**state.vectors, f"{model_id} of {length}": now}
                vectors[model_id] = vectors.pop(beside, {})
                self.change(vectors=vectors, generation=state.generation + 1)
        return bool(self.state.vectors.get(model_id))

    def prune(self) -> PruneReport:
        with self.changing() as state:
            wanted = {record.text_hash for record in state.records.values()}
            kept = {
                model_id: {hash_: vector for hash_, vector in vectors.items() if hash_ in wanted}
                for model_id, vectors in state.vectors.items()
            }
            self.change(
                vectors={model_id: vectors for model_id, vectors in kept.items() if vectors}
            )
        before = sum(map(len, state.vectors.values()))
        return PruneReport(
            vectors=before - sum(map(len, kept.values())),
            models=tuple(model_id for model_id, vectors in kept.items() if not vectors),
        )

    @contextmanager
    def reading(self) -> Generator[MemoryReader]:
        self.check_open()
        yield self.reader_class(self.state)


def is_within(path: str, limits: Collection[str]) -> bool:
    return any(f"{path}/".startswith(f"{limit}/") for limit in limits)
