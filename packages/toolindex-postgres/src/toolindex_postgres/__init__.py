"""One index of tools for many hosts, stored in PostgreSQL; each host searches its own copy.

    from toolindex_postgres import SharedStore

    store = SharedStore(copy, "postgresql://me@db.example.com/tools", tree="my-tools")

`SharedStore` is a `toolindex.ToolStore`; `Freshness` says how old its answers are. `Database`
creates the schema, grants rights to roles, and shows the status (`DatabaseStatus`, `TreeStatus`).
`redacted` removes the password from an address.
Errors: `UnreachableStoreError`, `AddressError`, `DeniedError`, `SchemaError`, `UnreadableRowError`,
all of them a `toolindex.DatabaseError`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolindex_postgres._address import redacted
    from toolindex_postgres._database import Database, DatabaseStatus, TreeStatus
    from toolindex_postgres._refresh import Freshness
    from toolindex_postgres._store import SharedStore
    from toolindex_postgres.errors import (
        AddressError,
        DeniedError,
        SchemaError,
        UnreachableStoreError,
        UnreadableRowError,
    )
else:
    # A name is imported at its first use, so that programs that only show an address need not wait
    # for the driver.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [
    "AddressError",
    "Database",
    "DatabaseStatus",
    "DeniedError",
    "Freshness",
    "SchemaError",
    "SharedStore",
    "TreeStatus",
    "UnreachableStoreError",
    "UnreadableRowError",
    "redacted",
]

_HOMES = {
    name: module
    for module, names in {
        "_address": "redacted",
        "_database": "Database DatabaseStatus TreeStatus",
        "_refresh": "Freshness",
        "_store": "SharedStore",
        "errors": "AddressError DeniedError SchemaError UnreachableStoreError UnreadableRowError",
    }.items()
    for name in names.split()
}
