"""A SQLite index of tools that is always in step with the files.

One call makes the index equal to a scan, and another stores vectors as they are computed::

    with ToolIndex("search.db") as index:
        report = index.sync(scan(root), reader_version=str(RECORD_VERSION))
        while texts := index.pending(embedder.model_id, limit=64):
            vectors = await embedder.embed_documents(list(texts.values()))
            index.put_vectors(embedder.model_id, dict(zip(texts, vectors, strict=True)))

The index: `ToolIndex`, `IndexReader`, `ToolEntry`, `ToolFilter`, `Coverage`.
Sync: `plan_sync`, `SyncPlan`, `StoredEntry`, `SyncReport`.
Search tables, for a ranker: `FTS_TABLE`, `FTS_COLUMNS`, `VEC_TABLE`, `CONTENT_TABLE`.
Embeddings: the `Embedder` protocol.
"""

from toolindex._filters import ToolFilter
from toolindex._plan import StoredEntry, SyncPlan, plan_sync
from toolindex._reader import Coverage, IndexReader
from toolindex._rows import FTS_COLUMNS, ToolEntry
from toolindex._store import ToolIndex
from toolindex._sync import SyncReport
from toolindex._vectors import VEC_TABLE
from toolindex.errors import (
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    ForeignRootError,
    NewerSchemaError,
    ReadOnlyIndexError,
    ToolIndexError,
    VectorError,
)
from toolindex.protocols import Embedder

CONTENT_TABLE = "entries"
FTS_TABLE = "entries_fts"

__all__ = [
    "CONTENT_TABLE",
    "FTS_COLUMNS",
    "FTS_TABLE",
    "VEC_TABLE",
    "Coverage",
    "DatabaseBusyError",
    "DatabaseError",
    "Embedder",
    "ForeignDatabaseError",
    "ForeignRootError",
    "IndexReader",
    "NewerSchemaError",
    "ReadOnlyIndexError",
    "StoredEntry",
    "SyncPlan",
    "SyncReport",
    "ToolEntry",
    "ToolFilter",
    "ToolIndex",
    "ToolIndexError",
    "VectorError",
    "plan_sync",
]
