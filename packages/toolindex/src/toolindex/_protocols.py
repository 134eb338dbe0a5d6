"""The protocols for other implementations of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from pathlib import Path

    from toolscan import ScanReport

    from toolindex._filters import ToolFilter
    from toolindex._reader import Coverage
    from toolindex._rows import ToolEntry
    from toolindex._sync import StoredFiles, SyncReport
    from toolindex._usage import (
        OutcomeRecord,
        SearchRecord,
        ToolOutcomes,
        ToolUsage,
        UsageStatistics,
    )


class WorkLease(Protocol):
    """The right to do one kind of work, held by one process at a time."""

    def acquire(self, *, timeout: float) -> bool:
        """Acquire the lease within a time; 0 tries once.

        It is free when its holder has died. Returns whether it was acquired, and has to be
        released.
        """
        ...

    def release(self) -> None:
        """Release it; nothing happens if it is not held."""
        ...

    def acquire_async(self, *, patience: float) -> AbstractAsyncContextManager[None]:
        """Hold the lease for a block, without blocking a thread; or raise `DatabaseBusyError`."""
        ...


class Candidate(Protocol):
    """A candidate for a search, with the store's own score; higher is better."""

    @property
    def id(self) -> str:
        """The tool's id as text."""
        ...

    @property
    def score(self) -> float:
        """The score, which is only comparable within one list."""
        ...


class StoreReader(Protocol):
    """One state of a store, whatever others write in the meantime; valid within its block.

    Candidates are filtered before they are cut off, so a filter that few tools pass still finds all
    of them. They are sorted best first, each tool once, equal scores by id.
    """

    def lexical(self, query: str, *, where: ToolFilter, depth: int) -> Sequence[Candidate]:
        """Return up to `depth` tools that share words with a query; any string is a query."""
        ...

    def nearest(
        self,
        vector: Sequence[float],
        *,
        model_id: str,
        where: ToolFilter,
        depth: int,
        then: Sequence[Sequence[float]] = (),
    ) -> Sequence[Candidate]:
        """Return up to `depth` tools by the cosine of their vectors of a model, in [-1, 1].

        Args:
            vector: The vector of a query.
            model_id: The model.
            where: Which tools.
            depth: How many at most.
            then: What will be asked for next, for a store that can do it at the same time.
        """
        ...

    def named(self, query: str, *, where: ToolFilter) -> Sequence[Candidate]:
        """Return the tools that a query mentions, by name, category and name, or id.

        Only the letters and digits of a name count. A tool whose name is the whole query scores 1,
        one that the query only mentions less.
        """
        ...

    def fuzzy(self, query: str, *, where: ToolFilter, depth: int) -> Sequence[Candidate]:
        """Return up to `depth` tools with words similar to those of a query; any string is a query.

        Words of the query may be misspelt or cut short.
        """
        ...

    def corrections(self, query: str) -> Mapping[str, str]:
        """Return the misspelt words of a query, which no tool has, with their corrections."""
        ...

    def terms(self, query: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Return a query's terms that some tools have, with what each adds to `lexical` scores.

        Those that add most come first; a corrected term is written as "isue→issue". Tools without
        any of them may be left out.
        """
        ...

    def lexical_coverage(
        self, query: str, ids: Sequence[str], *, unknown: float = 0.0
    ) -> Mapping[str, float]:
        """Return the share of a query's terms that some tools have, in [0, 1], by id.

        Rare terms count the most. Of a term that no tool has, `unknown` counts as had. Tools
        without any may be left out.
        """
        ...

    def lexical_scale(self, query: str) -> float:
        """Return the divisor that makes scores of `lexical` and `fuzzy` comparable between queries.

        A tool with all the words then scores about 1. It is 0 if a query has no words.
        """
        ...

    def entries(self, ids: Sequence[str]) -> Mapping[str, ToolEntry]:
        """Return the details of some tools; missing ids are left out."""
        ...

    def ids(self, where: ToolFilter) -> Sequence[str]:
        """Return the ids that pass a filter, sorted."""
        ...

    def changed_at(self) -> float | None:
        """Return when a tool was last added, updated or removed, in seconds since 1970, or None."""
        ...

    def categories(self, where: ToolFilter) -> Mapping[tuple[str, str], int]:
        """Count the tools that pass a filter, by source and category, without zeros."""
        ...

    def outcomes(self) -> Mapping[str, ToolOutcomes]:
        """Return the outcomes of each tool that has any."""
        ...

    def coverage(self, model_id: str, *, dimensions: int | None = None) -> Coverage:
        """Count the tools, and those with a searchable vector of a model, of a certain length.

        None is the length used last.
        """
        ...

    def with_vectors(
        self, ids: Collection[str], *, model_id: str, dimensions: int | None = None
    ) -> Collection[str]:
        """Return which of some ids have a searchable vector of a model, of a certain length."""
        ...

    def vectors(self, model_id: str, *, dimensions: int | None = None) -> Mapping[str, bytes]:
        """Return the searchable vector of each tool that has one, by id.

        These are a model's unit vectors, as little-endian float32, of a certain length.
        """
        ...

    def models(self) -> Sequence[str]:
        """Return the models whose vectors can be searched."""
        ...

    def generation(self) -> int:
        """Return a number that changes with every change that a search could see."""
        ...

    def state_of(self, model_id: str | None = None) -> Hashable:
        """Return a cache key for answers of a search by one model's vectors, or by words (None)."""
        ...

    def usage_generation(self) -> int:
        """Return the change counter of the outcomes."""
        ...

    def is_complete(self) -> bool:
        """Return whether a whole tree has been synced since the store was created."""
        ...


class UsageStore(Protocol):
    """The record of searches and outcomes.

    Every method is one transaction: one that raises has changed nothing, and can be retried.
    `since` leaves out older records, in seconds since 1970. Methods that read raise
    `DamagedDatabaseError` if the record is not as it was written.
    """

    @property
    def read_only(self) -> bool:
        """Whether nothing can be recorded; a store for reading only may record all the same."""
        ...

    def record_searches(self, searches: Iterable[SearchRecord]) -> None:
        """Record searches; those with known ids are ignored."""
        ...

    def record_outcomes(self, outcomes: Iterable[OutcomeRecord]) -> None:
        """Record outcomes; each counts, so pass each only once."""
        ...

    def statistics(self, *, since: float | None = None, top: int = 10) -> UsageStatistics:
        """Summarize the record, with the `top` most frequent queries without results."""
        ...

    def of_tool(self, tool_id: str) -> ToolUsage | None:
        """Summarize the outcomes of one tool like `statistics`; return None if it has none."""
        ...

    def searches(
        self, *, since: float | None = None, found: str | None = None
    ) -> tuple[SearchRecord, ...]:
        """Return the recorded searches, oldest first: all, or those that found a tool."""
        ...

    def outcomes(
        self, *, since: float | None = None, tool_id: str | None = None
    ) -> tuple[OutcomeRecord, ...]:
        """Return the recorded outcomes, oldest first: all, or those of one tool."""
        ...

    def retain(self, *, max_age_days: float, max_rows: int) -> tuple[int, int]:
        """Delete records that are too old, and the oldest if there are too many.

        The clock cannot be trusted, so no deletion relies on it alone:

        - Age is counted back from now or from the newest record, whichever is earlier. A clock
          that has jumped ahead deletes nothing by itself, and a record dated in the future
          does not make others older. The newest record is therefore kept; `clear` deletes it.
        - A record dated in the future is as old as any that was written after it, and is
          deleted with the first of those.
        - The number of records is limited in the order of writing, whatever the dates.

        Args:
            max_age_days: The maximum age of records.
            max_rows: The maximum number of searches, and of outcomes.

        Returns:
            How many searches and outcomes were deleted.

        Raises:
            ArgumentError: A number is negative or not finite.
        """
        ...

    def clear(self) -> tuple[int, int]:
        """Delete the whole record, and copies of it; return how many searches and outcomes."""
        ...


class VectorCache(Protocol):
    """Vectors of the most recent queries, so that a repeated query needs no model."""

    def get(
        self, model_id: str, query: str, *, dimensions: int | None = None
    ) -> Sequence[float] | None:
        """Return a model's unit vector for a query, exactly as it was embedded, or None.

        Vectors of other than the current length are not returned; None is the length used last.
        """
        ...

    def put(
        self, model_id: str, vectors: Mapping[str, Sequence[float]], *, used: Collection[str] = ()
    ) -> None:
        """Store vectors by query, and record which stored ones were used since the last call.

        Raises:
            VectorError: The vectors have different lengths, or one is not finite or all zeros; none
                was stored.
        """
        ...


class ToolStore(Protocol):
    """A store that mirrors a tree of tools, keeps what was computed for them, and finds them.

    Every change is atomic, even if the process is killed, and is visible to every read that begins
    after it, in this process and in others. Any thread may make any call. Failures raise a
    `ToolIndexError`, and leave the state unchanged. `toolindex.testing.check_store` checks an
    implementation; `toolindex.ToolIndex` is one in SQLite.
    """

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        ...

    def try_writing(self) -> bool:
        """Switch to writing, if the store can be written by now; return whether it can."""
        ...

    @property
    def where(self) -> str:
        """Its location for users: a file, or an address without the password."""
        ...

    @property
    def damaged(self) -> Path | None:
        """The new path of the damaged file that was last renamed, or None."""
        ...

    @property
    def durable_problem(self) -> str:
        """Why the usage record is left out of a read-only store, or an empty string.

        Searches do not need it, but filters by success and latency do.
        """
        ...

    @property
    def usage(self) -> UsageStore:
        """The record of searches and outcomes."""
        ...

    @property
    def query_vectors(self) -> VectorCache:
        """Vectors of queries."""
        ...

    def bind(self, root: str) -> None:
        """Bind the store to a tree, or check that it is bound to it.

        Two trees in one store would remove each other's tools. The store of a tree that was moved
        or removed can be bound to another.

        Args:
            root: The tree's full path; or those of several that are synced together, separated by
                `os.pathsep`.

        Raises:
            ForeignDatabaseError: It is the store of another tree, which still exists.
        """
        ...

    def stored(self, *, reader_version: str, within: Collection[str] | None = None) -> StoredFiles:
        """Return what is stored about files, so that a scan can skip unchanged ones.

        Args:
            reader_version: The version of the code that makes records from files. If it differs
                from that of the store, no stamps are known.
            within: Only these paths (posix, relative to the root) and those below them.
        """
        ...

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
        stored: StoredFiles | None = None,
    ) -> SyncReport:
        """Bring the store up to date with a scan, in one transaction; repeating it has no effect.

        New and changed tools can be found by their words as soon as this returns; by their meaning,
        once their vectors are stored. Hold the lease `"files"` from the scan on: an older scan must
        not be applied after a newer one.

        Args:
            scanned: The scan's report.
            reader_version: The version of the code that made it.
            within: The paths (posix, relative to the root) the scan was limited to.
            stored: What `stored` returned before the scan for the same paths; if it is still valid,
                it need not be read again.

        Raises:
            ForeignDatabaseError: The file was replaced by the store of another tree.
        """
        ...

    def annotate(self, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str] = ()) -> int:
        """Set the aliases of all tools; return how many tools have new ones.

        Aliases are searched in a separate column and are not embedded. They stay when a tool's file
        changes, and are removed with the tool.

        Args:
            aliases: Words and sentences by tool id. Tools that are not in it have none afterwards;
                unknown ids are ignored.
            keep: Ids of tools whose aliases are unchanged.
        """
        ...

    def pending(
        self, model_id: str, *, limit: int, among: Collection[str] | None = None
    ) -> Mapping[str, str]:
        """Return up to `limit` texts, by hash, that this model has neither embedded nor refused.

        If hashes are given, only texts with these.
        """
        ...

    def text_hashes(self, ids: Collection[str]) -> Collection[str]:
        """Return the hashes of these tools' texts."""
        ...

    def count_pending(self, model_id: str) -> int:
        """Count the pending texts; only called to show progress."""
        ...

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        """Record why a model refused some texts, by hash; they are not pending.

        They are pending again after a minute, and later each time they are refused.
        """
        ...

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Store vectors by the hash of their text, and make them searchable.

        Raises:
            VectorError: The vectors have different lengths, or one is not finite or all zeros; none
                was stored.
        """
        ...

    def lease(self, purpose: str) -> WorkLease:
        """Return the lease for one kind of work on this index."""
        ...

    def refused(self, model_id: str) -> Mapping[str, str]:
        """Return the reason, by tool id, for every tool whose text a model has refused."""
        ...

    def use_model(self, model_id: str, *, dimensions: int | None = None) -> bool:
        """Make a model's stored vectors searchable, beside other models'; return if it has any.

        Vectors of a new length count as those of another model, and are stored in addition to the
        others: texts without one of that length are then pending. None is the length used last.

        Raises:
            VectorError: Vectors of this length cannot be searched.
        """
        ...

    def back_up(self) -> bool:
        """Copy what cannot be made again, once a day; return whether a copy was made now.

        If the original is damaged or lost, it is restored from the copy and from the vectors in the
        index, so at most a day of the usage record is lost. Call it when idle: other threads and
        processes can use the store meanwhile.

        Raises:
            DamagedDatabaseError: The original is damaged.
        """
        ...

    def prune(self) -> int:
        """Delete the oldest vectors that no tool needs; return how many."""
        ...

    def check(self) -> Sequence[str]:
        """Check everything, which takes a while; return inconsistencies, as sentences.

        `rebuild` fixes them.

        Raises:
            DamagedDatabaseError: A file is damaged.
        """
        ...

    def rebuild(self, *, forget: str | None = None) -> None:
        """Rebuild the search tables from the tools and the stored vectors.

        The next scan then reads every file. The usage record is kept.

        Args:
            forget: The model that has to embed all texts again: all are pending, and its old
                vectors are used until they are replaced.
        """
        ...

    def quarantine(self) -> Path | None:
        """Rename a damaged file and continue with a new one; return its new path.

        The next scan and sync of the whole tree rebuilds the tools. What cannot be rebuilt is
        restored from the copy (`back_up`). None if another thread or process has already renamed
        the file, or nothing can be written. Not called on a store that never raises
        `DamagedDatabaseError`.
        """
        ...

    def vector_notes(self) -> Sequence[str]:
        """Return notes for users about limitations of vector search here."""
        ...

    def reading(self) -> AbstractContextManager[StoreReader]:
        """Read one state of the store."""
        ...

    def close(self) -> None:
        """Release all resources; the store cannot be used afterwards."""
        ...
