"""Stores that do one thing wrong, one for each part of the contract."""

import threading
from contextlib import contextmanager
from dataclasses import replace

from .memory_reader import MemoryReader
from .memory_store import MemoryLease, MemoryQueryVectors, MemoryStore
from .memory_usage import MemoryUsage


class KeepsWhatIsGone(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        self.change(records={**before, **self.state.records})
        return report


class ForgetsScope(MemoryStore):
    def sync(self, scanned, *, within=None, **options):
        return super().sync(scanned, **options)


class KeepsNoStamps(MemoryStore):
    def sync(self, scanned, **options):
        report = super().sync(scanned, **options)
        self.change(records={k: replace(r, stamp=None) for k, r in self.state.records.items()})
        return report


class StaysOpen(MemoryStore):
    def close(self):
        pass


class BelongsToItsThread(MemoryStore):
    def __init__(self, place=None):
        super().__init__(place)
        self.thread = threading.get_ident()

    @contextmanager
    def reading(self):
        assert threading.get_ident() == self.thread, "it was made in another thread"
        with super().reading() as reader:
            yield reader


class ChangesInTwoSteps(MemoryStore):
    """Empties itself before it fills itself, and lets somebody look in between."""

    def __init__(self, place=None):
        super().__init__(place)
        self.looked = threading.Event()

    def sync(self, scanned, **options):
        report = super().sync(scanned, **options)
        if threading.current_thread() is not threading.main_thread() and report.unchanged:
            with self.changing() as state:
                self.change(records={})
                self.looked.clear()
                self.looked.wait(0.1)
                self.change(records=state.records)
        return report

    @contextmanager
    def reading(self):
        with super().reading() as reader:
            yield reader
        self.looked.set()


class LeasesToEverybody(MemoryStore):
    def lease(self, purpose):
        return MemoryLease(threading.Lock())


class KeepsNoRefusals(MemoryStore):
    def refuse(self, model_id, reasons):
        pass


class KnowsOneModel(MemoryStore):
    def pending(self, model_id, *, limit, among=None):
        return super().pending("m", limit=limit, among=among)


class KeepsHalfABatch(MemoryStore):
    def put_vectors(self, model_id, vectors):
        for text_hash, vector in vectors.items():
            super().put_vectors(model_id, {text_hash: vector})


class CountsToolsAsGeneration(MemoryReader):
    def generation(self):
        return len(self.state.records)


class FindsAllWords(MemoryReader):
    def lexical(self, query, *, where, depth):
        return super().lexical(f"{query} mcptools", where=where, depth=depth)


class ReadsNoSlips(MemoryReader):
    def fuzzy(self, query, *, where, depth):
        return self.lexical(query, where=where, depth=depth)


class TakesTheFarthest(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        found = super().nearest(vector, model_id=model_id, where=where, depth=999)
        return found[-depth:]


class IncludesBeforeItExcludes(MemoryReader):
    def admits(self, where, record):
        exclude = () if where.include else where.exclude
        return super().admits(replace(where, exclude=exclude), record)


def with_reader(reader):
    return type(reader.__name__, (MemoryStore,), {"reader_class": reader})


class CountsEverySearch(MemoryUsage):
    def record_searches(self, searches):
        new = [
            replace(search, id=f"{search.id} {number}") for number, search in enumerate(searches)
        ]
        super().record_searches(new)


class KeepsTooManyRecords(MemoryUsage):
    def retain(self, *, max_age_days, max_rows):
        return super().retain(max_age_days=max_age_days, max_rows=999)


def with_usage(usage):
    class Broken(MemoryStore):
        def __init__(self, place=None):
            super().__init__(place)
            self.usage = usage(self)

    Broken.__name__ = usage.__name__
    return Broken


class KeepsNoQueries(MemoryQueryVectors):
    def put(self, model_id, vectors, *, used=()):
        super().put(model_id, {q: v for q, v in vectors.items() if not any(v)})


def with_query_vectors(kept):
    class Broken(MemoryStore):
        def __init__(self, place=None):
            super().__init__(place)
            self.query_vectors = kept(self.place.query_vectors)

    Broken.__name__ = kept.__name__
    return Broken


class ForgetsThoseOfChangedTools(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        same = {id_ for id_, record in self.state.records.items() if before.get(id_) == record}
        self.change(aliases={k: v for k, v in self.state.aliases.items() if k in same})
        return report


BROKEN = {
    KeepsWhatIsGone: "a store holds what was scanned",
    ForgetsScope: "a part that was synced is not a whole tree",
    KeepsNoStamps: "what is held of a file has its stamp",
    StaysOpen: "a closed store refuses every use",
    BelongsToItsThread: "it was made in another thread",
    ChangesInTwoSteps: "a look sees changes whole, or not at all",
    LeasesToEverybody: "a lease is held once",
    KeepsNoRefusals: "a text that was refused is not pending",
    KnowsOneModel: "what is pending for one model says nothing of another",
    KeepsHalfABatch: "a batch that is refused leaves nothing behind",
    with_reader(CountsToolsAsGeneration): "the generation is another after every change",
    with_reader(FindsAllWords): "tools that share words with a query are found, and no others",
    with_reader(ReadsNoSlips): "a tool is found by a word that is right, misspelt or cut short",
    with_reader(TakesTheFarthest): "the nearest tools are those that are kept",
    with_reader(IncludesBeforeItExcludes): r"exclude=.*read.*lets all of its tools through",
    with_usage(CountsEverySearch): "a search that is recorded twice counts once",
    with_usage(KeepsTooManyRecords): "of what is too many the oldest are deleted",
    with_query_vectors(KeepsNoQueries): "the vector of a query is kept",
    ForgetsThoseOfChangedTools: "is found by its alias",
}
"""Each with the promise that it breaks, as a pattern."""
