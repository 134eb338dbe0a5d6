"""What is asked of others: of stores of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from pathlib import Path

    from toolscan import ScanReport

    from toolindex._filters import ToolFilter
    from toolindex._pruning import PruneReport
    from toolindex._reader import Coverage
    from toolindex._rows import ToolEntry
    from toolindex._statistics import ToolOutcomes, ToolUsage, UsageStatistics
    from toolindex._stored import StoredFiles
    from toolindex._sync import SyncReport
    from toolindex._usage import OutcomeRecord, RemovedRecords, SearchRecord

__all__ = [
    "Candidate",
    "StoreReader",
    "ToolStore",
    "UsageStore",
    "VectorCache",
    "WorkLease",
]


class WorkLease(Protocol):
    """The right to do one kind of work, held by one process at a time."""

    def acquire(self, *, timeout: float) -> bool:
        """Take it if it can be had in time; 0 tries once. Free when its holder is dead."""
        ...

    def release(self) -> None:
        """Release it."""
        ...

    def turn(self, *, patience: float) -> AbstractAsyncContextManager[None]:
        """Hold it for a block, waiting without holding up a thread, or a `LeaseHeldError`."""
        ...


class Candidate(Protocol):
    """A tool that may be what is searched, with the store's own score; higher is better."""

    @property
    def id(self) -> str:
        """The tool's id as text."""
        ...

    @property
    def score(self) -> float:
        """The score, comparable within one list only."""
        ...


class StoreReader(Protocol):
    """One state of a store, whatever others write meanwhile; good as long as its block.

    Candidates are filtered before they are cut, so a filter that lets few tools through
    still gets all of them. They come best first, each tool once, equal scores by id.
    """

    def lexical(self, query: str, *, where: ToolFilter, depth: int) -> Sequence[Candidate]:
        """Return up to `depth` tools that share words with a query; any string is a query."""
        ...

    def nearest(
        self, vector: Sequence[float], *, model_id: str, where: ToolFilter, depth: int
    ) -> Sequence[Candidate]:
        """Return up to `depth` tools by the cosine of their vectors of a model, in [-1, 1]."""
        ...

    def named(self, query: str, *, where: ToolFilter) -> Sequence[Candidate]:
        """Return the tools that a query names, by name, category and name, or id.

        However a name is spelt: its letters and digits count. A tool whose name the whole query
        is scores 1, one that it only mentions less.
        """
        ...

    def fuzzy(self, query: str, *, where: ToolFilter, depth: int) -> Sequence[Candidate]:
        """Return up to `depth` tools with words like those of a query; any string is a query.

        A word of the query may be misspelt or cut short.
        """
        ...

    def corrections(self, query: str) -> Mapping[str, str]:
        """Return the words of a query that no tool has, with those they are slips of; or none."""
        ...

    def terms(self, query: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Return the terms of a query that some tools have, with what each adds in `lexical`.

        Those that add most are first; a term that is taken for a slip reads "isue→issue". A tool
        that has none of them may be left out.
        """
        ...

    def lexical_coverage(self, query: str, ids: Sequence[str]) -> Mapping[str, float]:
        """Return which share of a query's terms some tools have, in [0, 1], by id.

        Rare terms count most. A tool that has none may be left out.
        """
        ...

    def lexical_scale(self, query: str) -> float:
        """Return what scores of `lexical` and `fuzzy` are divided by to mean the same.

        About 1 is then a tool that has all the words; 0 where a query has no words.
        """
        ...

    def entries(self, ids: Sequence[str]) -> Mapping[str, ToolEntry]:
        """Return the details of some tools; an id that is gone is left out."""
        ...

    def ids(self, where: ToolFilter) -> Sequence[str]:
        """Return the ids that a filter lets pass, sorted."""
        ...

    def changed_at(self) -> float | None:
        """Return when a tool was last added or updated, in seconds since 1970; None without any."""
        ...

    def categories(self, where: ToolFilter) -> Mapping[tuple[str, str], int]:
        """Count the tools that a filter lets pass, by source and category; none has no entry."""
        ...

    def outcomes(self) -> Mapping[str, ToolOutcomes]:
        """Return the outcomes of each tool for which any are known."""
        ...

    def coverage(self, model_id: str, *, dimensions: int | None = None) -> Coverage:
        """Count the tools, and those with a searchable vector of a model, of some length.

        None is the length that was put to use last.
        """
        ...

    def with_vectors(
        self, ids: Collection[str], *, model_id: str, dimensions: int | None = None
    ) -> Collection[str]:
        """Return those of some ids whose vectors of a model, of some length, can be searched."""
        ...

    def models(self) -> Sequence[str]:
        """Name the models whose vectors can be searched."""
        ...

    def generation(self) -> int:
        """Return a number that is another after every change that a search could see."""
        ...

    def usage_generation(self) -> int:
        """Return a number that is another after every change of what is known of outcomes."""
        ...

    def is_complete(self) -> bool:
        """Return whether a whole tree has been synced since the store was made."""
        ...


class UsageStore(Protocol):
    """The record of searches and outcomes; `toolindex.UsageLog` documents it in full."""

    def record_searches(self, searches: Iterable[SearchRecord]) -> None:
        """Write searches down, each id once."""
        ...

    def record_outcomes(self, outcomes: Iterable[OutcomeRecord]) -> None:
        """Write outcomes down."""
        ...

    def statistics(self, *, since: float | None = None, top: int = 10) -> UsageStatistics:
        """Sum the record up."""
        ...

    def of_tool(self, tool_id: str) -> ToolUsage | None:
        """Sum up the outcomes of one tool, as `statistics` does; None where it has none."""
        ...

    def searches(
        self, *, since: float | None = None, found: str | None = None
    ) -> tuple[SearchRecord, ...]:
        """Return the searches that are kept, oldest first: all, or those that found a tool."""
        ...

    def outcomes(
        self, *, since: float | None = None, tool_id: str | None = None
    ) -> tuple[OutcomeRecord, ...]:
        """Return the outcomes that are kept, oldest first: all, or those of one tool."""
        ...

    def retain(self, *, max_age_days: float, max_rows: int) -> RemovedRecords:
        """Delete what is too old, and the oldest of what is too many."""
        ...

    def clear(self) -> RemovedRecords:
        """Delete the whole record."""
        ...


class VectorCache(Protocol):
    """Vectors of queries; `toolindex.QueryVectors` documents it in full."""

    def get(
        self, model_id: str, query: str, *, dimensions: int | None = None
    ) -> Sequence[float] | None:
        """Return the vector that a model gave a query, of length 1, or None."""
        ...

    def put(
        self, model_id: str, vectors: Mapping[str, Sequence[float]], *, used: Collection[str] = ()
    ) -> None:
        """Keep vectors by query, and note which of the kept ones were used."""
        ...


class ToolStore(Protocol):
    """A place that mirrors a tree of tools, keeps what was computed for them, and finds them.

    Every change is whole or not at all, also when the process is killed, and is seen by every
    look that begins after it, in this process and in others. Every call may come from any
    thread. Failures are a `ToolIndexError`, which leaves the state as it was.
    `toolindex.testing.check_store` checks an implementation; `ToolIndex` documents each call.
    """

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        ...

    def try_writing(self) -> bool:
        """Write from now on where nothing could be written before; return whether that is so."""
        ...

    @property
    def where(self) -> str:
        """What users are told of where it is: a file, or an address without its password."""
        ...

    @property
    def damaged(self) -> Path | None:
        """The file that was set aside last because it was damaged, or None."""
        ...

    @property
    def kept_problem(self) -> str:
        """Why the usage record is left out where nothing can be written, or ""."""
        ...

    @property
    def usage(self) -> UsageStore:
        """The record of searches and outcomes."""
        ...

    @property
    def query_vectors(self) -> VectorCache:
        """Vectors of queries, kept for when they are asked again."""
        ...

    def bind(self, root: str) -> None:
        """Make this the store of one tree; that of another which exists is refused."""
        ...

    def stored(self, *, reader_version: str, within: Collection[str] | None = None) -> StoredFiles:
        """Return what is held of the files."""
        ...

    def sync(
        self,
        scanned: ScanReport,
        *,
        reader_version: str,
        within: Collection[str] | None = None,
        stored: StoredFiles | None = None,
    ) -> SyncReport:
        """Make the store equal to a scan; doing it twice is doing it once."""
        ...

    def annotate(self, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str] = ()) -> int:
        """Make what tools are also found by, by id, equal to a mapping but for some; count them."""
        ...

    def pending(
        self, model_id: str, *, limit: int, among: Collection[str] | None = None
    ) -> Mapping[str, str]:
        """Return up to `limit` texts, by hash, that this model has neither embedded nor refused.

        Where hashes are given, only texts among these.
        """
        ...

    def text_hashes(self, ids: Collection[str]) -> Collection[str]:
        """Return the hashes of the texts that some tools are embedded by."""
        ...

    def count_pending(self, model_id: str) -> int:
        """Count them; asked once, and only where progress is shown."""
        ...

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        """Keep why a model gave no vector for some texts, by hash: these are not pending.

        Not forever: they are tried again in a minute, and later each time they are refused.
        """
        ...

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep vectors by the hash of their text: from now on these are not pending."""
        ...

    def lease(self, purpose: str) -> WorkLease:
        """Return the lease of one kind of work on this index."""
        ...

    def refused(self, model_id: str) -> Mapping[str, str]:
        """Return the reason, by tool id, for every tool whose text a model has refused."""
        ...

    def use_model(self, model_id: str, *, dimensions: int | None = None) -> bool:
        """Make a model's kept vectors searchable; whether there are any.

        Vectors of another length than before count as those of another model, and are kept beside
        the others: from now on texts without one of that length are pending.
        """
        ...

    def prune(self) -> PruneReport:
        """Forget the oldest vectors that no tool needs."""
        ...

    def check(self) -> Sequence[str]:
        """Return what does not fit together, as sentences."""
        ...

    def rebuild(self, *, forget: str | None = None) -> None:
        """Make all that follows from other data anew, and forget the vectors of a model."""
        ...

    def set_aside(self) -> Path | None:
        """Put an empty store in the place of one found damaged; return the file that was renamed.

        None where there was none to rename. A store that raises no `DamagedDatabaseError` is never
        asked.
        """
        ...

    def vector_notes(self) -> Sequence[str]:
        """Return sentences for users about what vector search lacks here."""
        ...

    def reading(self) -> AbstractContextManager[StoreReader]:
        """Look at one state of the store."""
        ...

    def close(self) -> None:
        """Release everything; the store cannot be used afterwards."""
        ...
