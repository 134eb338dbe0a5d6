"""One index of tools for many hosts, stored in PostgreSQL; each host searches its own copy.

    from toolindex_postgres import SharedStore

    store = SharedStore(copy, "postgresql://me@db.example.com/tools", tree="my-tools")

`SharedStore` is a `toolindex.ToolStore`, so it can be used wherever one is expected. A database's
owner uses `Database`, or the commands of `toolindex_postgres.commands`.
"""

from toolindex_postgres._address import Address as Address
from toolindex_postgres._database import Database as Database
from toolindex_postgres._errors import UnreachableStoreError as UnreachableStoreError
from toolindex_postgres._refresh import Freshness as Freshness
from toolindex_postgres._store import SharedStore as SharedStore
