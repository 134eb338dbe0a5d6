"""A store in memory, as another project would write one: public names only, and no SQL."""

from __future__ import annotations

import math
import struct
import threading
import time
from array import array
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import SimpleNamespace

from toolindex import (
    Coverage,
    ForeignRootError,
    PruneReport,
    QueryCount,
    RemovedRecords,
    StoredEntry,
    StoredFiles,
    SyncReport,
    ToolEntry,
    ToolIndexError,
    ToolOutcomes,
    ToolUsage,
    UsageStatistics,
    VectorError,
    name_key,
    percentile,
    plan_sync,
)


@dataclass(frozen=True, kw_only=True)
class State:
    """The content of a store at one moment; every change creates a new state.

    Vectors are stored by model and length, then by the hash of their text.
    """

    records: dict = field(default_factory=dict)
    aliases: dict = field(default_factory=dict)
    vectors: dict = field(default_factory=dict)
    lengths: dict = field(default_factory=dict)
    searches: dict = field(default_factory=dict)
    outcomes: tuple = ()
    generation: int = 1
    usage_generation: int = 1
    reader_version: str | None = None
    is_complete: bool = False
    root: str | None = None


@dataclass
class Place:
    """What all stores of one place share, like processes that share a database."""

    state: State = field(default_factory=State)
    query_vectors: dict = field(default_factory=dict)
    refusals: dict = field(default_factory=lambda: defaultdict(dict))
    writing: threading.RLock = field(default_factory=threading.RLock)
    locks: dict = field(default_factory=lambda: defaultdict(threading.Lock))


class MemoryStore:
    read_only = False
    damaged = None
    kept_problem = ""
    where = "memory"

    def __init__(self, place=None):
        self.place = place or Place()
        self.is_closed = False
        self.usage = MemoryUsage(self)
        self.query_vectors = MemoryQueryVectors(self.place.query_vectors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.is_closed = True

    @property
    def state(self):
        if self.is_closed:
            raise ToolIndexError("the store has been closed; make another")
        return self.place.state

    @contextmanager
    def changing(self):
        """Yield the state, which no other thread changes within the block."""
        with self.place.writing:
            yield self.state

    def change(self, **values):
        self.place.state = replace(self.state, **values)

    @contextmanager
    def reading(self):
        yield MemoryReader(self.state)

    def lease(self, purpose):
        return MemoryLease(self.place.locks[purpose])

    def try_writing(self):
        return True

    def check(self):
        return ()

    def vector_notes(self):
        return ()

    def set_aside(self):
        return None

    def bind(self, root):
        with self.changing() as state:
            if state.root not in (None, root) and Path(state.root).is_dir():
                raise ForeignRootError("memory", root=state.root)
            self.change(root=root)

    def stored(self, *, reader_version, within=None):
        state = self.state
        return StoredFiles.of(
            (
                StoredEntry(
                    id=id_, path=record.path, file_hash=record.file_hash, stamp=record.stamp
                )
                for id_, record in state.records.items()
                if within is None or any(is_below(record.path, limit) for limit in within)
            ),
            generation=state.generation,
            within=within,
            is_current=not state.records or state.reader_version == reader_version,
            is_complete=state.is_complete,
        )

    def sync(self, scanned, *, reader_version, within=None, stored=None):
        with self.changing() as state:
            if stored is None or stored.generation != state.generation:
                stored = self.stored(reader_version=reader_version, within=within)
            reread = not stored.is_current
            plan = plan_sync(stored.entries, scanned, within=within, reread=reread)
            records = {id_: it for id_, it in state.records.items() if id_ not in plan.removed}
            for id_, stamp in plan.touched.items():
                records[id_] = replace(records[id_], stamp=stamp)
            for record in (*plan.added, *plan.updated, *plan.reread):
                records[str(record.id)] = record
            if records != state.records:
                aliases = {id_: it for id_, it in state.aliases.items() if id_ in records}
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

    def annotate(self, aliases, *, keep=()):
        with self.changing() as state:
            given = {
                id_: state.aliases.get(id_, ()) if id_ in keep else tuple(aliases.get(id_, ()))
                for id_ in state.records
            }
            changed = sum(state.aliases.get(id_, ()) != texts for id_, texts in given.items())
            if changed:
                self.change(aliases=given, generation=state.generation + 1)
        return changed

    def pending(self, model_id, *, limit, among=None):
        state = self.state
        done = {*MemoryReader(state).kept(model_id), *self.place.refusals[model_id]}
        texts = {
            record.text_hash: record.id.embedding_text(
                record.description,
                (it.alias or it.name for it in record.parameters),
                tags=record.tags,
            )
            for record in state.records.values()
            if record.text_hash not in done and (among is None or record.text_hash in among)
        }
        return dict(list(texts.items())[:limit])

    def text_hashes(self, ids):
        return {self.state.records[id_].text_hash for id_ in ids if id_ in self.state.records}

    def count_pending(self, model_id):
        return len(self.pending(model_id, limit=len(self.state.records)))

    def refuse(self, model_id, reasons):
        with self.changing():
            self.place.refusals[model_id].update(reasons)

    def refused(self, model_id):
        reasons = self.place.refusals[model_id]
        return {
            id_: reasons[record.text_hash]
            for id_, record in self.state.records.items()
            if record.text_hash in reasons
        }

    def put_vectors(self, model_id, vectors):
        if not vectors:
            return
        with self.changing() as state:
            length = len(next(iter(vectors.values())))
            units = {hash_: unit(vector, model_id, length) for hash_, vector in vectors.items()}
            for hash_ in units:
                self.place.refusals[model_id].pop(hash_, None)
            kept = state.vectors.get((model_id, length), {})
            self.change(
                vectors=state.vectors | {(model_id, length): kept | units},
                lengths=state.lengths | {model_id: length},
                generation=state.generation + 1,
            )

    def use_model(self, model_id, *, dimensions=None):
        with self.changing() as state:
            if model_id in state.lengths and dimensions not in (None, state.lengths[model_id]):
                self.change(
                    lengths=state.lengths | {model_id: dimensions}, generation=state.generation + 1
                )
            return bool(MemoryReader(self.state).kept(model_id))

    def back_up(self):
        return False

    def prune(self):
        with self.changing() as state:
            wanted = {record.text_hash for record in state.records.values()}
            kept = {
                key: {hash_: vector for hash_, vector in vectors.items() if hash_ in wanted}
                for key, vectors in state.vectors.items()
            }
            self.change(vectors=kept)
        gone = sum(map(len, state.vectors.values())) - sum(map(len, kept.values()))
        return PruneReport(vectors=gone, models=())

    def rebuild(self, *, forget=None):
        with self.changing() as state:
            vectors = {key: it for key, it in state.vectors.items() if key[0] != forget}
            self.change(vectors=vectors, reader_version=None, generation=state.generation + 1)


class MemoryLease:
    def __init__(self, lock):
        self.lock = lock

    def acquire(self, *, timeout):
        return self.lock.acquire(timeout=timeout)

    def release(self):
        self.lock.release()

    @asynccontextmanager
    async def turn(self, *, patience):
        assert self.acquire(timeout=patience)
        try:
            yield
        finally:
            self.release()


class MemoryQueryVectors:
    def __init__(self, kept):
        self.kept = kept

    def get(self, model_id, query, *, dimensions=None):
        vector = self.kept.get((model_id, query))
        return vector if vector and dimensions in (None, len(vector)) else None

    def put(self, model_id, vectors, *, used=()):
        for query, vector in vectors.items():
            self.kept[model_id, query] = unit(vector, model_id, len(vector))


class MemoryReader:
    """One state of a store, whatever others write in the meantime."""

    def __init__(self, state):
        self.state = state

    def lexical(self, query, *, where, depth):
        scores = {id_: float(len(words_of(query) & self.words(id_))) for id_ in self.ids(where)}
        return best(scores, depth)

    def fuzzy(self, query, *, where, depth):
        scores = {id_: likeness(words_of(query), self.words(id_)) for id_ in self.ids(where)}
        return best(scores, depth)

    def named(self, query, *, where):
        ids = [self.state.records[id_].id for id_ in self.ids(where)]
        names = {str(it): {str(it), it.name, f"{it.category} {it.name}"} for it in ids}
        scores = {
            id_: float(name_key(query) in map(name_key, known)) for id_, known in names.items()
        }
        return best(scores, len(scores))

    def nearest(self, vector, *, model_id, where, depth, then=()):
        kept, query = self.kept(model_id, len(vector)), unit(vector, model_id, len(vector))
        hashes = {id_: self.state.records[id_].text_hash for id_ in self.ids(where)}
        scores = {
            id_: sum(map(float.__mul__, query, kept[hash_]))
            for id_, hash_ in hashes.items()
            if hash_ in kept
        }
        return best(scores, depth, least=-math.inf)

    def corrections(self, query):
        return {}

    def terms(self, query, ids):
        return {id_: dict.fromkeys(sorted(words_of(query) & self.words(id_)), 1.0) for id_ in ids}

    def lexical_coverage(self, query, ids, *, unknown=0.0):
        wanted = words_of(query)
        known = set().union(*map(self.words, self.state.records))
        lacking = unknown * len(wanted - known)
        return {
            id_: (len(wanted & self.words(id_)) + lacking) / len(wanted) for id_ in ids if wanted
        }

    def lexical_scale(self, query):
        return float(len(words_of(query)))

    def words(self, id_):
        if id_ not in self.state.records:
            return set()
        texts = (id_, self.state.records[id_].description, *self.state.aliases.get(id_, ()))
        return words_of(" ".join(texts))

    def entries(self, ids):
        names = ("id", "path", "signature", "summary", "description", "parameters", "tags")
        return {
            id_: ToolEntry(
                **{name: getattr(self.state.records[id_], name) for name in names},
                aliases=self.state.aliases.get(id_, ()),
            )
            for id_ in ids
            if id_ in self.state.records
        }

    def ids(self, where):
        return sorted(id_ for id_, it in self.state.records.items() if self.passes(where, it))

    def passes(self, where, record):
        own = [it for it in self.state.outcomes if it.tool_id == str(record.id)]
        good, times = sum(it.success for it in own), latencies_of(own)
        bounds = (
            (where.min_success_rate, len(own), lambda least: good >= least * len(own)),
            (where.max_latency_ms, len(times), lambda most: percentile(times, 50) <= most),
        )
        return (
            where.source in (None, record.id.source)
            and (not where.categories or record.id.category in where.categories)
            and where.tags <= set(record.tags)
            and where.passes_id(str(record.id))
            and (where.path_prefix is None or is_below(record.path, where.path_prefix))
            and all(
                is_kept(bound) if count >= where.min_observations else where.unknown == "include"
                for bound, count, is_kept in bounds
                if bound is not None
            )
        )

    def categories(self, where):
        found = [self.state.records[id_].id for id_ in self.ids(where)]
        return dict(Counter((it.source, it.category) for it in found))

    def changed_at(self):
        return time.time() if self.state.records else None

    def outcomes(self):
        known = {}
        for id_ in {it.tool_id for it in self.state.outcomes}:
            own = [it for it in self.state.outcomes if it.tool_id == id_]
            good, times = sum(it.success for it in own), latencies_of(own)
            mean = sum(times) / len(times) if times else None
            known[id_] = ToolOutcomes(good, len(own) - good, len(times), mean)
        return known

    def kept(self, model_id, dimensions=None):
        length = dimensions or self.state.lengths.get(model_id)
        return self.state.vectors.get((model_id, length), {})

    def coverage(self, model_id, *, dimensions=None):
        return Coverage(
            tools=len(self.state.records),
            vectors=len(
                self.with_vectors(self.state.records, model_id=model_id, dimensions=dimensions)
            ),
            dimensions=dimensions or self.state.lengths.get(model_id, 0),
        )

    def with_vectors(self, ids, *, model_id, dimensions=None):
        kept, records = self.kept(model_id, dimensions), self.state.records
        return {id_ for id_ in ids if id_ in records and records[id_].text_hash in kept}

    def vectors(self, model_id, *, dimensions=None):
        kept, records = self.kept(model_id, dimensions), self.state.records
        return {
            id_: struct.pack(f"<{len(kept[it.text_hash])}f", *kept[it.text_hash])
            for id_, it in records.items()
            if it.text_hash in kept
        }

    def models(self):
        return sorted({model_id for (model_id, _), kept in self.state.vectors.items() if kept})

    def generation(self):
        return self.state.generation

    def state_of(self, model_id=None):
        return self.state.generation

    def usage_generation(self):
        return self.state.usage_generation

    def is_complete(self):
        return self.state.is_complete


class MemoryUsage:
    """The record of searches and outcomes."""

    read_only = False

    def __init__(self, store):
        self.store = store

    def record_searches(self, searches):
        with self.store.changing() as state:
            self.store.change(searches={it.id: it for it in searches} | state.searches)

    def record_outcomes(self, outcomes):
        with self.store.changing() as state:
            self.change(outcomes=(*state.outcomes, *outcomes))

    def change(self, **values):
        self.store.change(usage_generation=self.store.state.usage_generation + 1, **values)

    def searches(self, *, since=None, found=None):
        kept = sorted(self.store.state.searches.values(), key=lambda it: it.at)
        recent = [it for it in kept if since is None or it.at >= since]
        return tuple(it for it in recent if found is None or found in it.results)

    def outcomes(self, *, since=None, tool_id=None):
        kept = sorted(self.store.state.outcomes, key=lambda it: it.at)
        recent = [it for it in kept if since is None or it.at >= since]
        return tuple(it for it in recent if tool_id in (None, it.tool_id))

    def of_tool(self, tool_id, since=None):
        outcomes = self.outcomes(since=since, tool_id=tool_id)
        times = latencies_of(outcomes)
        if not outcomes:
            return None
        return ToolUsage(
            tool_id=tool_id,
            observations=len(outcomes),
            successes=sum(it.success for it in outcomes),
            latency_p50_ms=percentile(times, 50),
            latency_p95_ms=percentile(times, 95),
            last_used_at=max(it.at for it in outcomes),
        )

    def statistics(self, *, since=None, top=10):
        searches = self.searches(since=since)
        accepted = defaultdict(set)
        for it in self.outcomes():
            accepted[it.search_id] |= {it.tool_id} if it.success else set()
        judged = [it for it in searches if it.id in accepted]
        empty = Counter(it.query for it in searches if not it.results)
        times = sorted(it.latency_ms for it in searches)
        used = {it.tool_id for it in self.outcomes(since=since)}
        tools = [self.of_tool(tool_id, since) for tool_id in used]
        return UsageStatistics(
            searches=len(searches),
            without_results=empty.total(),
            queries_without_results=tuple(
                QueryCount(query=query, count=count) for query, count in empty.most_common(top)
            ),
            judged=len(judged),
            first_accepted=sum(it.results[0] in accepted[it.id] for it in judged if it.results),
            latency_p50_ms=percentile(times, 50),
            latency_p95_ms=percentile(times, 95),
            degraded=sum(bool(it.degraded) for it in searches),
            tools=tuple(sorted(tools, key=lambda it: (-it.observations, it.tool_id))),
        )

    def retain(self, *, max_age_days, max_rows):
        since = time.time() - max_age_days * 86_400
        return self.keep(
            self.searches(since=since)[-max_rows:], self.outcomes(since=since)[-max_rows:]
        )

    def clear(self):
        return self.keep((), ())

    def keep(self, searches, outcomes):
        with self.store.changing() as state:
            self.change(searches={it.id: it for it in searches}, outcomes=tuple(outcomes))
            return RemovedRecords(
                searches=len(state.searches) - len(searches),
                outcomes=len(state.outcomes) - len(outcomes),
            )


def best(scores, depth, *, least=0.0):
    ordered = sorted(scores.items(), key=lambda it: (-it[1], it[0]))
    return [SimpleNamespace(id=id_, score=score) for id_, score in ordered if score > least][:depth]


def is_below(path, folder):
    return f"{path}/".startswith(f"{folder}/")


def words_of(text):
    return set("".join(c if c.isalnum() else " " for c in text.lower()).split())


def likeness(wanted, known):
    return float(
        sum(
            any(it.startswith(word) for it in known)
            or bool(get_close_matches(word, known, 1, 0.75))
            for word in wanted
        )
    )


def latencies_of(outcomes):
    return sorted(it.latency_ms for it in outcomes if it.success and it.latency_ms is not None)


def unit(vector, model_id, dimensions):
    length = math.hypot(*array("f", vector))
    if len(vector) != dimensions or not 0 < length < math.inf:
        raise VectorError(
            model_id, f"returned {vector} where {dimensions} finite values were expected"
        )
    return tuple(value / length for value in vector)
