"""Stores that do one thing wrong: as a whole, and among threads."""

import math
import threading
from contextlib import contextmanager
from dataclasses import replace

from toolscan import FileStamp

from .memory_reader import MemoryReader
from .memory_store import MemoryLease, MemoryStore


class SaysItIsReadOnly(MemoryStore):
    read_only = True


class KeepsWhatIsGone(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        self.change(records={**before, **self.state.records})
        return report


class CountsUpdatesAsNew(MemoryStore):
    def sync(self, scanned, **options):
        report = super().sync(scanned, **options)
        return replace(report, added=report.added + report.updated, updated=0)


class ForgetsScope(MemoryStore):
    def sync(self, scanned, *, within=None, **options):
        return super().sync(scanned, **options)


class TellsOfEverything(MemoryStore):
    def stored(self, *, reader_version, within=None):
        return super().stored(reader_version=reader_version)


class TakesNamesForFolders(MemoryStore):
    def stored(self, *, reader_version, within=None):
        found = super().stored(reader_version=reader_version)
        entries = [
            entry
            for entry in found.entries.values()
            if within is None or entry.path.startswith(tuple(within))
        ]
        return type(found).of(
            entries,
            generation=found.generation,
            within=within,
            is_current=found.is_current,
            is_complete=found.is_complete,
        )


class TakesAPartForTheWhole(MemoryStore):
    def sync(self, scanned, *, reader_version, **options):
        report = super().sync(scanned, reader_version=reader_version, **options)
        self.change(is_complete=True)
        return report


class TakesAPartForAllReadAnew(MemoryStore):
    def sync(self, scanned, *, reader_version, **options):
        report = super().sync(scanned, reader_version=reader_version, **options)
        if self.state.is_complete:
            self.change(reader_version=reader_version)
        return report


class ForgetsAPartOfATree(MemoryStore):
    def stored(self, *, reader_version, within=None):
        found = super().stored(reader_version=reader_version, within=within)
        return replace(found, is_current=found.is_current and self.state.is_complete)


class ForgetsWhatWasPassedOver(MemoryStore):
    def sync(self, scanned, **options):
        return super().sync(replace(scanned, unchanged=()), **options)


class CountsTouchedAsUpdated(MemoryStore):
    def sync(self, scanned, **options):
        stamps = {id_: record.stamp for id_, record in self.state.records.items()}
        report = super().sync(scanned, **options)
        touched = sum(
            stamps.get(id_, record.stamp) != record.stamp
            for id_, record in self.state.records.items()
        )
        return replace(report, updated=report.updated + touched)


class KeepsOldWords(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        changed = {
            id_: replace(record, description=f"{before[id_].description} {record.description}")
            for id_, record in self.state.records.items()
            if id_ in before and before[id_].description != record.description
        }
        self.change(records={**self.state.records, **changed})
        return report


class LearnsNoNewWords(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        old = {
            id_: replace(record, description=before[id_].description)
            for id_, record in self.state.records.items()
            if id_ in before
        }
        self.change(records={**self.state.records, **old})
        return report


class GivesOldVectorsToNewTexts(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        kept = self.state.vectors.get("m", {})
        given = {
            record.text_hash: kept[before[id_].text_hash]
            for id_, record in self.state.records.items()
            if id_ in before and before[id_].text_hash in kept
        }
        self.change(vectors={**self.state.vectors, "m": {**kept, **given}} if kept else {})
        return report


class KeepsNoStamps(MemoryStore):
    def sync(self, scanned, **options):
        report = super().sync(scanned, **options)
        self.change(records={k: replace(r, stamp=None) for k, r in self.state.records.items()})
        return report


class KeepsOldStamps(MemoryStore):
    def sync(self, scanned, **options):
        report = super().sync(scanned, **options)
        old = FileStamp(1, 1, 1, 1)
        self.change(records={k: replace(r, stamp=old) for k, r in self.state.records.items()})
        return report


class BelievesWhatItIsGiven(MemoryStore):
    def sync(self, scanned, *, stored=None, **options):
        if stored is not None:
            stored = replace(stored, generation=self.state.generation)
        return super().sync(scanned, stored=stored, **options)


class AsksForNoScan(MemoryStore):
    def sync(self, scanned, **options):
        return replace(super().sync(scanned, **options), rescan=())


class KnowsNoReaders(MemoryStore):
    def stored(self, *, reader_version, within=None):
        known = self.state.reader_version or ""
        return super().stored(reader_version=known, within=within)


class RemembersNoReader(MemoryStore):
    def stored(self, *, reader_version, within=None):
        return replace(super().stored(reader_version="", within=within), is_current=False)


class ForgetsVectorsOfWhatIsReadAnew(MemoryStore):
    def sync(self, scanned, *, reader_version, **options):
        if reader_version != self.state.reader_version:
            self.change(vectors={})
        return super().sync(scanned, reader_version=reader_version, **options)


class BelongsToAnybody(MemoryStore):
    def bind(self, root):
        pass


class BelongsToTheFirst(MemoryStore):
    def bind(self, root):
        if self.state.root not in (None, root):
            raise ValueError("it is another's")
        self.change(root=root)


class StaysOpen(MemoryStore):
    def close(self):
        pass


class ClosesWithAnErrorOfItsOwn(MemoryStore):
    def check_open(self):
        if self.is_closed:
            raise RuntimeError("closed")


class Live(MemoryReader):
    """Looks at what there is now, not at what there was."""

    def __init__(self, store):
        self.store = store

    @property
    def state(self):
        return self.store.state


class LooksAtWhatThereIsNow(MemoryStore):
    @contextmanager
    def reading(self):
        self.check_open()
        yield Live(self)


class SeesRemovalsLate(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        self.removed = before if report.removed == len(before) else None
        return report

    @contextmanager
    def reading(self):
        with super().reading() as reader:
            if getattr(self, "removed", None):
                reader.state = replace(reader.state, records=self.removed)
            yield reader


class KeepsWritersWaiting(MemoryStore):
    patience = 0.1

    @contextmanager
    def reading(self):
        with self.changing() as state:
            yield MemoryReader(state)


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


class LeasesOneKindOfWork(MemoryStore):
    def lease(self, purpose):
        return super().lease("work")


class TakesNoLeaseBack(MemoryStore):
    def lease(self, purpose):
        lease = super().lease(purpose)
        lease.release = lambda: None
        return lease


class LeasesNothing(MemoryStore):
    def lease(self, purpose):
        lease = super().lease(purpose)
        lease.acquire = lambda timeout: False
        return lease


class AsksForAllTexts(MemoryStore):
    def pending(self, model_id, *, limit):
        return super().pending(model_id, limit=999)


class KeepsNoRefusals(MemoryStore):
    def refuse(self, model_id, reasons):
        pass


class CountsRefusedTexts(MemoryStore):
    def count_pending(self, model_id):
        refused = set(self.place.refusals[model_id])
        wanted = {record.text_hash for record in self.state.records.values()}
        return super().count_pending(model_id) + len(refused & wanted)


class RefusesForEveryModel(MemoryStore):
    def refuse(self, model_id, reasons):
        for model in (model_id, "other"):
            super().refuse(model, reasons)


class NamesNoRefusedTool(MemoryStore):
    def refused(self, model_id):
        return {}


class RefusesForEver(MemoryStore):
    def put_vectors(self, model_id, vectors):
        reasons = dict(self.place.refusals[model_id])
        super().put_vectors(model_id, vectors)
        self.place.refusals[model_id].update(reasons)


class CountsOneTooMany(MemoryStore):
    def count_pending(self, model_id):
        return super().count_pending(model_id) + 1


class EmbedsEachTool(MemoryStore):
    def pending(self, model_id, *, limit):
        texts = super().pending(model_id, limit=limit)
        return texts | {f"again {text_hash}": text for text_hash, text in texts.items()}


class KnowsOneModel(MemoryStore):
    def pending(self, model_id, *, limit):
        return super().pending("m", limit=limit)


class ForgetsVectorsOfRemovedTools(MemoryStore):
    def sync(self, scanned, **options):
        report = super().sync(scanned, **options)
        self.prune()
        return report


class DropsVectorsOfUnknownTexts(MemoryStore):
    def put_vectors(self, model_id, vectors):
        wanted = {record.text_hash for record in self.state.records.values()}
        known = {text_hash: v for text_hash, v in vectors.items() if text_hash in wanted}
        super().put_vectors(model_id, known)


class PrunesEverything(MemoryStore):
    def prune(self):
        report = super().prune()
        self.change(vectors={})
        return report


class UsesAnyModel(MemoryStore):
    def use_model(self, model_id):
        return True


class UsesNoModel(MemoryStore):
    def use_model(self, model_id):
        return False


class CountsNoVectorsAsAChange(MemoryStore):
    def put_vectors(self, model_id, vectors):
        generation = self.state.generation
        super().put_vectors(model_id, vectors)
        self.change(generation=generation)


def is_good(vector):
    return any(vector) and all(map(math.isfinite, vector))


class TakesAnyVector(MemoryStore):
    def put_vectors(self, model_id, vectors):
        good = {
            k: v if all(map(math.isfinite, v)) and any(v) else [1.0, 0.0]
            for k, v in vectors.items()
        }
        super().put_vectors(model_id, good)


class KeepsHalfABatch(MemoryStore):
    def put_vectors(self, model_id, vectors):
        for text_hash, vector in vectors.items():
            super().put_vectors(model_id, {text_hash: vector})


class ForgetsOtherLengths(MemoryStore):
    def use_model(self, model_id, *, dimensions=None):
        if dimensions is not None:
            self.change(vectors={})
        return super().use_model(model_id)


class KnowsOneLength(MemoryStore):
    def use_model(self, model_id, *, dimensions=None):
        return super().use_model(model_id)


BROKEN = {
    SaysItIsReadOnly: "a store that can be written says so",
    KeepsWhatIsGone: "a store holds what was scanned",
    CountsUpdatesAsNew: "a sync counts what it added, updated, removed and left",
    ForgetsScope: "a part that was synced is not a whole tree",
    TellsOfEverything: "what is held within .* is those paths",
    TakesNamesForFolders: "those paths and what is below",
    TakesAPartForTheWhole: "a part that was synced is not a whole tree",
    ForgetsAPartOfATree: "a part that was synced is known",
    TakesAPartForAllReadAnew: "a part that was read anew does not stand for the whole tree",
    KeepsNoStamps: "what is held of a file has its stamp",
    KeepsOldStamps: "a file written anew has its new stamp",
    BelievesWhatItIsGiven: "what was held before another change is not used by a sync",
    AsksForNoScan: "paths that were passed over, but are not held any more",
    KnowsNoReaders: "what another reader made is not known",
    RemembersNoReader: "a sync done twice is done once",
    ForgetsVectorsOfWhatIsReadAnew: "a text that stays the same keeps its vector",
    BelongsToAnybody: "the store of a tree that exists does not become that of another",
    BelongsToTheFirst: "does not become that of another: expected ForeignRootError, got ValueError",
    StaysOpen: "a closed store refuses every use",
    ClosesWithAnErrorOfItsOwn: "a closed store .* expected ToolIndexError, got RuntimeError",
    LooksAtWhatThereIsNow: "a look sees one state of the store",
    KeepsWritersWaiting: "a look keeps nobody from writing",
    BelongsToItsThread: "it was made in another thread",
    ChangesInTwoSteps: "a look sees changes whole, or not at all",
    LeasesToEverybody: "a lease is held once",
    LeasesOneKindOfWork: "a lease does not wait for that of other work",
    TakesNoLeaseBack: "a lease that was given back is free",
    LeasesNothing: "a lease that nobody holds can be had",
    AsksForAllTexts: "no more texts are given than asked for",
    KeepsNoRefusals: "a text that was refused is not pending",
    CountsRefusedTexts: "a text that was refused is not counted as pending",
    RefusesForEveryModel: "a refusal by one model says nothing of another",
    NamesNoRefusedTool: "every tool whose text was refused is named with the reason",
    RefusesForEver: "a text that has a vector is no longer refused",
    EmbedsEachTool: "a text that two tools share is pending once",
    KnowsOneModel: "what is pending for one model says nothing of another",
    ForgetsVectorsOfRemovedTools: "a tool that comes back has its vector",
    DropsVectorsOfUnknownTexts: "the vector of a tool that was gone meanwhile is kept",
    PrunesEverything: "a vector that a tool needs is never forgotten",
    UsesAnyModel: "a model without vectors cannot be used",
    UsesNoModel: "a model with vectors can be used",
    CountsNoVectorsAsAChange: "the generation is another after vectors were put",
    TakesAnyVector: r"a batch with the vector \[nan, 1.0\] is refused",
    KeepsHalfABatch: "a batch that is refused leaves nothing behind",
    ForgetsOtherLengths: "vectors of the length that was before are found",
    KnowsOneLength: "all texts are pending for vectors of another length",
    ForgetsWhatWasPassedOver: "a file that was passed over keeps its entry",
    CountsTouchedAsUpdated: "a file written anew with the same bytes is unchanged",
    KeepsOldWords: "a changed tool is not found by its old words",
    LearnsNoNewWords: "a changed tool is found by its new words",
    GivesOldVectorsToNewTexts: "a changed tool is not found by its old vector",
    SeesRemovalsLate: "a look sees every change that ended before it",
    CountsOneTooMany: "texts that are pending are counted",
}
"""Each with the promise that it breaks, as a pattern."""
