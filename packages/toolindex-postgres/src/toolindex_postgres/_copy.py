"""This host's copy of a tree: who may change it, which state it has, and bringing it to another.

Everything can be repeated: an interrupted update is completed the next time.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from toolindex import DatabaseBusyError, ToolFilter
from toolscan import ScanReport

from toolindex_postgres._notes import Note, Notes
from toolindex_postgres._rows import vector_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence

    from toolindex import StoredFiles, ToolStore
    from toolscan import ToolRecord

    from toolindex_postgres._tree import State, Tree

_EVERY = ToolFilter()
# If nothing was ever synced, the contents of the copy are not from this tree.
_NO_READER = ""
_BEFORE_ALL = -(1 << 63)
_LEASE_SECONDS = 30.0
# Another thread may be changing the tree, and waiting up to two minutes for each of several hosts.
_THREAD_SECONDS = 300.0


class Change(NamedTuple):
    """What a sync changes on the server.

    Attributes:
        changed: Records to write.
        removed: Ids of tools that are gone.
        moved: As in a plan of toolindex.
        is_whole: Whether all records are then from one reader and cover the whole tree; None if
            that need not be recorded.
    """

    changed: Sequence[ToolRecord]
    removed: Sequence[str]
    moved: Sequence[tuple[str, str]]
    is_whole: bool | None

    @property
    def is_empty(self) -> bool:
        """Whether the server need not be asked."""
        return not (self.changed or self.removed or self.is_whole)


class Copy:
    """A copy in a file, with a record of its state in another file beside it.

    Attributes:
        store: The store in the file.
        notes: The file beside it.
    """

    def __init__(self, store: ToolStore) -> None:
        self.store = store
        self.notes = Notes(store.where, read_only=store.read_only)
        self._lock = RLock()
        self._depth = 0
        self._seen: Note | None = None

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Become the only writer of the copy on this host, before taking the tree's lock.

        Raises:
            DatabaseBusyError: Another thread or process has been changing it for too long.
        """
        with self.try_exclusive(_THREAD_SECONDS, _LEASE_SECONDS) as is_ours:
            if not is_ours:
                raise DatabaseBusyError(self.store.where)
            yield

    @contextmanager
    def try_exclusive(
        self, patience: float = 0.0, process_patience: float | None = None
    ) -> Generator[bool]:
        """Become the only writer of the copy; yield whether that worked.

        Args:
            patience: How many seconds to wait for another thread.
            process_patience: The same for another process; by default equal.
        """
        if not self._lock.acquire(timeout=patience):
            yield False
            return
        try:
            lease = self.store.lease("copy")
            is_inner = self._depth > 0
            timeout = patience if process_patience is None else process_patience
            if not is_inner and not lease.acquire(timeout=timeout):
                yield False
                return
            self._depth += 1
            try:
                yield True
            finally:
                self._depth -= 1
                if not is_inner:
                    lease.release()
        finally:
            self._lock.release()

    @contextmanager
    def changing(self) -> Generator[None]:
        """Change only the copy in a block, and record that its state of the tree is the same."""
        with self.exclusive():
            note = self.notes.state()
            is_known = note is not None and note.copy == self._generation()
            yield
            if is_known and note is not None:
                self._seen = replace(note, copy=self._generation())
                self.notes.put_state(self._seen)

    def is_at(self, state: State) -> bool:
        """Return whether the copy is known to have a state of the tree."""
        seen = self._seen
        return seen is not None and seen == replace(self._note_of(state), left_out=seen.left_out)

    def bring_to(self, tree: Tree) -> None:
        """Bring the copy to the state of the tree; the caller is its only writer."""
        note, now = self.notes.state(), self._note_of(tree.state)
        if note is not None and now == replace(
            note, generation=now.generation, left_out=now.left_out
        ):
            if note.generation == now.generation:
                # Another thread or process has already done it.
                self._seen = note
                return
            tree.left_out = dict(note.left_out)
            self._follow(tree, note.generation)
        else:
            self._compare(tree)
        self.note(tree.state, tree.left_out)

    def note(self, state: State, left_out: Mapping[str, str]) -> None:
        """Record that the copy has a state of the tree, without some rows."""
        self._seen = replace(self._note_of(state), left_out=left_out)
        self.notes.put_state(self._seen)

    def left_out(self) -> Mapping[str, str]:
        """Return the reasons why rows of the tree cannot be read, by display name."""
        note = self._seen or self.notes.state()
        return {} if note is None else note.left_out

    def forget(self) -> None:
        """Forget the copy's state, so that it is compared with the whole tree."""
        self._seen = None
        self.notes.put_state(None)

    def close(self) -> None:
        self.notes.close()
        self.store.close()

    def put_vectors(self, vectors: Iterable[tuple[str, dict[str, array[float]]]]) -> None:
        for model, by_hash in vectors:
            self.store.put_vectors(model, by_hash)

    def plan(
        self,
        scanned: ScanReport,
        reader_version: str,
        within: Collection[str] | None,
        now: State | None,
    ) -> Change:
        """Plan a sync in the state of the tree, which the copy has, if it is known.

        Returns:
            What changes on the server.
        """
        held = self.store.stored(reader_version=reader_version, within=within)
        reread, plan = not held.is_current, held.plan(scanned)
        # A copy stays complete, but its tree may have been dropped and created again.
        is_complete = held.is_complete if now is None else now.is_complete
        is_other = now is not None and now.reader_version != reader_version
        is_whole: bool | None = None
        if within is None and not plan.rescan and (reread or is_other or not is_complete):
            is_whole = True
        elif not reread and not is_complete:
            is_whole = False
        return Change(plan.changed, plan.removed, plan.moved, is_whole)

    def changes_aliases(self, aliases: Mapping[str, Sequence[str]], keep: Collection[str]) -> bool:
        """Return whether tools would get other aliases than they have in the copy."""
        with self.store.reading() as reader:
            held = reader.entries(reader.ids(_EVERY))
        return any(
            tuple(aliases.get(id_, ())) != entry.aliases
            for id_, entry in held.items()
            if id_ not in keep
        )

    def differences(self, tree: Tree, *, besides: Collection[str]) -> list[str]:
        """Return how the copy differs from the tree, besides some tools, as sentences."""
        found: list[str] = []
        mine = self.store.stored(reader_version=tree.state.reader_version or _NO_READER)
        differing = {id_ for id_, _ in tree.listing().items() ^ _listing(mine).items()}
        if count := len(differing.difference(besides)):
            found.append(f"tools that differ between the server and this host's copy: {count}")
        if not tree.has_right_counters():
            found.append(
                "the counters of the usage record are lower than the numbers of its events"
            )
        return found

    def vectors_to_restore(
        self, tree: Tree, *, among: Collection[str], besides: str | None
    ) -> Iterator[tuple[str, dict[str, array[float]]]]:
        """Yield vectors of some texts that the copy has and the server lacks, by model and hash.

        One model may be ignored (`besides`).
        """
        with self.store.reading() as reader:
            for model in reader.models() if among else ():
                length = reader.coverage(model).dimensions
                wanted = tree.without_vectors(model, length, among)
                if model == besides or not wanted:
                    continue
                held = reader.vectors(model)
                found: dict[str, array[float]] = {}
                for id_ in wanted.keys() & held.keys():
                    # The tool may have another text on the server.
                    if wanted[id_] in self.store.text_hashes([id_]):
                        with suppress(ValueError):
                            found[wanted[id_]] = vector_of(held[id_], length)
                if found:
                    yield model, found

    def _follow(self, tree: Tree, since: int) -> None:
        """Apply what has changed in the tree since the state of the copy."""
        store, now = self.store, tree.state
        held = store.stored(reader_version=now.reader_version or _NO_READER, within=())
        is_of_reader = now.reader_version is None or (
            held.is_current and held.is_complete == now.is_complete
        )
        if not is_of_reader or not tree.knows(since):
            tree.left_out.clear()
            return self._compare(tree)
        changes = tree.delta(since)
        if changes is None:
            return self._compare(tree, since)
        ids = [*(str(record.id) for record in changes.changed), *changes.removed]
        with store.reading() as reader:
            paths = {id_: entry.path for id_, entry in reader.entries(ids).items()}
            every = reader.ids(_EVERY) if changes.aliases else ()
        if any(paths.get(str(it.id), it.path) != it.path for it in changes.changed):
            # A tool has moved, and the changes do not include other tools of its old file.
            return self._compare(tree, since)
        reader_version = now.reader_version or _NO_READER
        within = {record.path for record in changes.changed}
        gone = {paths[id_] for id_ in changes.removed if id_ in paths}
        hashes = set(changes.removed.values())
        if any(record.file_hash in hashes for record in changes.changed):
            # A single sync would take all of these for renamed files, but some may have been
            # removed and restored. The host that synced them knew, and stored the vectors to keep.
            self._sync(changes.changed, reader_version, within)
            self._sync((), reader_version, gone - within)
        else:
            self._sync(changes.changed, reader_version, within | gone)
        if changes.aliases:
            new = [str(record.id) for record in changes.changed]
            store.annotate(changes.aliases, keep={*every, *new} - set(changes.aliases))
        self.put_vectors(tree.vectors_since(since))
        return None

    def _compare(self, tree: Tree, since: int = _BEFORE_ALL) -> None:
        """Make the copy equal to the tree in portions; it has the vectors of the state `since`."""
        store, now = self.store, tree.state
        reader_version = now.reader_version or _NO_READER
        theirs, held = _by_path(tree.listing()), store.stored(reader_version=reader_version)
        mine = _by_path(_listing(held))
        same = {path for path in theirs if held.is_current and mine.get(path) == theirs[path]}
        new = tree.portions(theirs.keys() - same)
        # Records by an older version of the reader are all replaced.
        known = () if held.is_current else tuple(chain.from_iterable(new))
        read = set(same)
        # Tools are added before others are removed, so that files are not taken for renamed ones,
        # as above. They are added in batches, so that an interrupted first copy can be continued.
        for portion in [known] if known else new:
            paths = {record.path for record in portion}
            self._sync(portion, reader_version, paths)
            read |= paths
        if theirs or mine or now.is_complete:
            store.sync(
                ScanReport(records=known, unchanged=() if known else tuple(sorted(read))),
                reader_version=reader_version,
                within=None if now.is_complete else sorted({*theirs, *mine}),
            )
        store.annotate(tree.aliases())
        self.put_vectors(tree.vectors_since(since))

    def _sync(
        self, records: Sequence[ToolRecord], reader_version: str, within: Collection[str]
    ) -> None:
        if within:
            report = ScanReport(records=tuple(records))
            self.store.sync(report, reader_version=reader_version, within=sorted(within))

    def _note_of(self, state: State) -> Note:
        return Note(
            database=state.database,
            tree=state.tree,
            generation=state.generation,
            copy=self._generation(),
        )

    def _generation(self) -> int:
        with self.store.reading() as reader:
            return reader.generation()


def _listing(held: StoredFiles) -> dict[str, tuple[str, str]]:
    return {id_: (it.path, it.file_hash) for id_, it in held.entries.items()}


def _by_path(entries: Mapping[str, tuple[str, str]]) -> Mapping[str, Mapping[str, str]]:
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for id_, (path, file_hash) in entries.items():
        found[path][id_] = file_hash
    return found
