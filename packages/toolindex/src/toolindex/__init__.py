"""A SQLite index of tools that is kept up to date with their files.

One call brings the index up to date with a scan::

    with ToolIndex("search.db") as index:
        with index.lease("files").held(timeout=30):
            stored = index.stored(reader_version=str(ToolRecord.VERSION))
            scanned = scan(root, known=stored.stamps, hashes=stored.hashes)
            report = index.sync(scanned, reader_version=str(ToolRecord.VERSION), stored=stored)
"""

from toolindex._filters import ToolFilter as ToolFilter
from toolindex._index import ToolIndex as ToolIndex
from toolindex._lease import Lease as Lease
from toolindex._lease import finish_in_thread as finish_in_thread
from toolindex._reader import Coverage as Coverage
from toolindex._reader import IndexReader as IndexReader
from toolindex._rows import ToolEntry as ToolEntry
from toolindex._sync import StoredFiles as StoredFiles
from toolindex._sync import SyncPlan as SyncPlan
from toolindex._sync import SyncReport as SyncReport
from toolindex._sync import plan_sync as plan_sync
from toolindex._usage import OutcomeRecord as OutcomeRecord
from toolindex._usage import RemovedRecords as RemovedRecords
from toolindex._usage import SearchRecord as SearchRecord
from toolindex._usage import ToolOutcomes as ToolOutcomes
from toolindex._usage import ToolUsage as ToolUsage
from toolindex._usage import UsageStatistics as UsageStatistics
from toolindex._usage import percentile as percentile
from toolindex._vectors import check_dimensions as check_dimensions
from toolindex.errors import ArgumentError as ArgumentError
from toolindex.errors import DamagedDatabaseError as DamagedDatabaseError
from toolindex.errors import DatabaseBusyError as DatabaseBusyError
from toolindex.errors import DatabaseError as DatabaseError
from toolindex.errors import ForeignDatabaseError as ForeignDatabaseError
from toolindex.errors import ForeignRootError as ForeignRootError
from toolindex.errors import LeaseHeldError as LeaseHeldError
from toolindex.errors import NewerSchemaError as NewerSchemaError
from toolindex.errors import ToolIndexError as ToolIndexError
from toolindex.errors import TooManyFilesError as TooManyFilesError
from toolindex.errors import VectorError as VectorError
from toolindex.protocols import Candidate as Candidate
from toolindex.protocols import StoreReader as StoreReader
from toolindex.protocols import ToolStore as ToolStore
from toolindex.protocols import UsageStore as UsageStore
from toolindex.protocols import VectorCache as VectorCache
from toolindex.protocols import WorkLease as WorkLease
