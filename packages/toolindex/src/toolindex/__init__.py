"""A SQLite index of tools that is kept up to date with their files.

One call brings the index up to date with a scan::

    with ToolIndex("search.db") as index:
        with index.lease("files").held(timeout=30):
            stored = index.stored(reader_version=str(ToolRecord.VERSION))
            scanned = scan(root, known=stored.stamps, hashes=stored.hashes)
            report = index.sync(scanned, reader_version=str(ToolRecord.VERSION), stored=stored)
"""

from toolindex._errors import ArgumentError as ArgumentError
from toolindex._errors import DamagedDatabaseError as DamagedDatabaseError
from toolindex._errors import DatabaseBusyError as DatabaseBusyError
from toolindex._errors import DatabaseError as DatabaseError
from toolindex._errors import ForeignDatabaseError as ForeignDatabaseError
from toolindex._errors import NewerSchemaError as NewerSchemaError
from toolindex._errors import ToolIndexError as ToolIndexError
from toolindex._errors import VectorError as VectorError
from toolindex._filters import ToolFilter as ToolFilter
from toolindex._index import ToolIndex as ToolIndex
from toolindex._lease import Lease as Lease
from toolindex._lease import finish_in_thread as finish_in_thread
from toolindex._protocols import StoreReader as StoreReader
from toolindex._protocols import ToolStore as ToolStore
from toolindex._reader import Coverage as Coverage
from toolindex._reader import IndexReader as IndexReader
from toolindex._rows import ToolEntry as ToolEntry
from toolindex._sync import StoredFiles as StoredFiles
from toolindex._sync import SyncReport as SyncReport
from toolindex._usage import OutcomeRecord as OutcomeRecord
from toolindex._usage import SearchRecord as SearchRecord
from toolindex._usage import ToolOutcomes as ToolOutcomes
from toolindex._usage import ToolUsage as ToolUsage
from toolindex._usage import UsageStatistics as UsageStatistics
