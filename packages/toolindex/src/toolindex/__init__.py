"""A SQLite index of tools that is kept up to date with their files.

One call brings the index up to date with a scan::

    with ToolIndex("search.db") as index:
        with index.lease("files").held(timeout=30):
            stored = index.stored(reader_version=str(ToolRecord.VERSION))
            scanned = scan(root, known=stored.stamps, hashes=stored.hashes)
            report = index.sync(scanned, reader_version=str(ToolRecord.VERSION), stored=stored)

The index: `ToolIndex`, `IndexReader`, `ToolEntry`, `ToolFilter`, `Coverage`, `Lease`.
Sync: `StoredFiles`, `plan_sync`, `SyncPlan`, `StoredEntry`, `SyncReport`.
Vectors: `ToolIndex.pending` has the texts without one, `ToolIndex.put_vectors` takes them;
`QueryVectors`, `PruneReport`. The package toolembed embeds what is pending.
Usage: `UsageLog`, `SearchRecord`, `OutcomeRecord`, `UsageStatistics`, `ToolUsage`,
`ToolOutcomes`, `QueryCount`, `percentile`.
Another store: the `ToolStore` protocol with `StoreReader`, `Candidate`, `UsageStore`,
`VectorCache` and `WorkLease`; `toolindex.testing.check_store` checks one.
Threads: `finish_in_thread`, for calls of all these from async code.
Search tables, for a ranker: `FTS_TABLE`, `FTS_COLUMNS`, `VectorTable`, `CONTENT_TABLE`,
`name_key`.
The files: `kept_path` says where the second one is, `backup_path` where its copy is,
`application_id` whose file it is; only this package may open them. `remove_index` removes all,
unless they are open elsewhere. sqlite-vec: `load_sqlite_vec` loads it, or says why it cannot be
loaded.
"""

from typing import TYPE_CHECKING

from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    FilterError,
    ForeignDatabaseError,
    ForeignRootError,
    LeaseHeldError,
    NewerSchemaError,
    ReadOnlyIndexError,
    ToolIndexError,
    TooManyFilesError,
    UsageError,
    VectorError,
)
from toolindex.protocols import (
    Candidate,
    StoreReader,
    ToolStore,
    UsageStore,
    VectorCache,
    WorkLease,
)

if TYPE_CHECKING:
    from toolindex._extension import load_sqlite_vec
    from toolindex._filters import ToolFilter
    from toolindex._header import application_id
    from toolindex._lease import Lease, finish_in_thread
    from toolindex._parts import backup_path, kept_path
    from toolindex._pruning import PruneReport
    from toolindex._query_vectors import QueryVectors
    from toolindex._reader import Coverage, IndexReader
    from toolindex._removal import remove_index
    from toolindex._rows import FTS_COLUMNS, ToolEntry, name_key
    from toolindex._statistics import (
        QueryCount,
        ToolOutcomes,
        ToolUsage,
        UsageStatistics,
        percentile,
    )
    from toolindex._store import ToolIndex
    from toolindex._stored import StoredEntry, StoredFiles
    from toolindex._sync import SyncPlan, SyncReport, plan_sync
    from toolindex._usage import RemovedRecords, UsageLog
    from toolindex._usage_records import OutcomeRecord, SearchRecord
    from toolindex._vectors import VectorTable, check_dimensions
else:
    # Imported on first use, so that opening an index does not import the rest.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


CONTENT_TABLE = "entries"
FTS_TABLE = "entries_fts"

__all__ = [
    "CONTENT_TABLE",
    "FTS_COLUMNS",
    "FTS_TABLE",
    "Candidate",
    "Coverage",
    "DamagedDatabaseError",
    "DatabaseBusyError",
    "DatabaseError",
    "FilterError",
    "ForeignDatabaseError",
    "ForeignRootError",
    "IndexReader",
    "Lease",
    "LeaseHeldError",
    "NewerSchemaError",
    "OutcomeRecord",
    "PruneReport",
    "QueryCount",
    "QueryVectors",
    "ReadOnlyIndexError",
    "RemovedRecords",
    "SearchRecord",
    "StoreReader",
    "StoredEntry",
    "StoredFiles",
    "SyncPlan",
    "SyncReport",
    "TooManyFilesError",
    "ToolEntry",
    "ToolFilter",
    "ToolIndex",
    "ToolIndexError",
    "ToolOutcomes",
    "ToolStore",
    "ToolUsage",
    "UsageError",
    "UsageLog",
    "UsageStatistics",
    "UsageStore",
    "VectorCache",
    "VectorError",
    "VectorTable",
    "WorkLease",
    "application_id",
    "backup_path",
    "check_dimensions",
    "finish_in_thread",
    "kept_path",
    "load_sqlite_vec",
    "name_key",
    "percentile",
    "plan_sync",
    "remove_index",
]

_HOMES = {
    name: module
    for module, names in {
        "_extension": "load_sqlite_vec",
        "_filters": "ToolFilter",
        "_header": "application_id",
        "_lease": "Lease finish_in_thread",
        "_parts": "backup_path kept_path",
        "_pruning": "PruneReport",
        "_query_vectors": "QueryVectors",
        "_reader": "Coverage IndexReader",
        "_removal": "remove_index",
        "_rows": "FTS_COLUMNS ToolEntry name_key",
        "_statistics": "QueryCount ToolOutcomes ToolUsage UsageStatistics percentile",
        "_store": "ToolIndex",
        "_stored": "StoredEntry StoredFiles",
        "_sync": "SyncPlan SyncReport plan_sync",
        "_usage": "RemovedRecords UsageLog",
        "_usage_records": "OutcomeRecord SearchRecord",
        "_vectors": "VectorTable check_dimensions",
    }.items()
    for name in names.split()
}
