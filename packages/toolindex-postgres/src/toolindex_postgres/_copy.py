"""This host's copy of a tree: locks for changing it, and which state of the tree it has."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING

from toolindex import LeaseHeldError

from toolindex_postgres._copy_changes import follow
from toolindex_postgres._notes import Note, Notes

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping

    from toolindex import ToolStore

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._tree import State

__all__ = ["Copy"]

_LEASE_SECONDS = 30.0
# Another thread may be changing the tree, and waiting up to two minutes for each of several hosts.
_THREAD_SECONDS = 300.0


class Copy:
    """A copy in a file, with a record of its state in another file beside it.

    Args:
        store: The store in the file.

    Attributes:
        store: The store.
        notes: The file beside it.
    """

    def __init__(self, store: ToolStore) -> None:
        self.store = store
        self.notes = Notes(store.where, read_only=store.read_only)
        self._lock = RLock()
        self._depth = 0
        self._seen: Note | None = None

    @contextmanager
    def alone(self) -> Generator[None]:
        """Become the only writer of the copy on this host, before taking the tree's lock.

        Raises:
            LeaseHeldError: Another thread or process has been changing it for too long.
        """
        if not self._lock.acquire(timeout=_THREAD_SECONDS):
            raise LeaseHeldError(self.store.where)
        try:
            lease = self.store.lease("copy")
            if not self._depth and not lease.acquire(timeout=_LEASE_SECONDS):
                raise LeaseHeldError(self.store.where)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    lease.release()
        finally:
            self._lock.release()

    @contextmanager
    def turn(self, patience: float = 0.0) -> Generator[bool]:
        """Become the only writer of the copy; yield whether that worked.

        Args:
            patience: How many seconds to wait for another writer.
        """
        if not self._lock.acquire(timeout=patience):
            yield False
            return
        try:
            lease = self.store.lease("copy")
            is_ours = lease.acquire(timeout=patience)
            try:
                yield is_ours
            finally:
                if is_ours:
                    lease.release()
        finally:
            self._lock.release()

    @contextmanager
    def changing(self) -> Generator[None]:
        """Change only the copy in a block, and record that its state of the tree is the same."""
        with self.alone():
            note = self.notes.read()
            is_known = note is not None and note.copy == self._generation()
            yield
            if is_known and note is not None:
                self._seen = replace(note, copy=self._generation())
                self.notes.write(self._seen)

    def is_at(self, now: State) -> bool:
        """Return whether the copy is known to have a state of the tree."""
        seen = self._seen
        return (
            seen is not None
            and (seen.database, seen.tree) == (now.database, now.tree)
            and seen.generation == now.generation
            and seen.copy == self._generation()
        )

    def bring_to(self, connection: Connection, now: State) -> None:
        """Bring the copy to a state; the caller is its only writer."""
        note = self.notes.read()
        is_of_copy = (
            note is not None
            and (note.database, note.tree) == (now.database, now.tree)
            and note.copy == self._generation()
        )
        if is_of_copy and note is not None and note.generation == now.generation:
            # Another thread or process has already done it.
            self._seen = note
            return
        known = note if is_of_copy else None
        left_out = follow(
            self.store,
            connection,
            now,
            since=None if known is None else known.generation,
            left_out={} if known is None else known.left_out,
        )
        self._note(now, now.generation, left_out)

    def note(self, now: State, generation: int, *, written: Collection[str] = ()) -> None:
        """Record that the copy has a state of the tree, in which some rows were written."""
        left_out = {it: why for it, why in self.left_out().items() if it not in written}
        self._note(now, generation, left_out)

    def left_out(self) -> Mapping[str, str]:
        """Return the reasons why rows of the tree cannot be read, by display name."""
        note = self._seen or self.notes.read()
        return {} if note is None else note.left_out

    def _note(self, now: State, generation: int, left_out: Mapping[str, str]) -> None:
        self._seen = Note(
            database=now.database,
            tree=now.tree,
            generation=generation,
            copy=self._generation(),
            left_out=left_out,
        )
        self.notes.write(self._seen)

    def forget(self) -> None:
        """Forget the copy's state, so that it is compared with the whole tree."""
        self._seen = None
        self.notes.forget()

    def close(self) -> None:
        """Close the copy, and the file beside it."""
        self.notes.close()
        self.store.close()

    def _generation(self) -> int:
        with self.store.reading() as reader:
            return reader.generation()
