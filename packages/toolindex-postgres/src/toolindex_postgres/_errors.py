"""Errors in addition to those of toolindex; each message says what to do next."""

from __future__ import annotations

import re

from toolindex import DatabaseError

__all__ = [
    "AddressError",
    "DeniedError",
    "SchemaError",
    "UnreachableStoreError",
    "UnreadableRowError",
]

_LOGIN = re.compile(r"password|authentication|pg_hba")


class UnreachableStoreError(DatabaseError):
    """The server cannot be reached, or does not answer in time; the data is not affected."""

    def __init__(self, where: str, reason: str) -> None:
        advice = "check that the server runs and that the address is right"
        if _LOGIN.search(reason):
            advice = "check the user in the address, and its password (PGPASSWORD or ~/.pgpass)"
        super().__init__(where, f"the server cannot be reached ({reason}); {advice}")


class AddressError(DatabaseError):
    """The address is not that of a PostgreSQL database."""

    def __init__(self) -> None:
        # No part of it is shown: any part might be a password.
        super().__init__(
            "the address of the server",
            "this is not an address; write postgresql://user@host/database, and special "
            "characters in percent encoding (an @ as %40)",
        )


class DeniedError(DatabaseError):
    """The role in the address may not do this."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            where,
            f"the role of this address may not do that ({reason}); let the owner run "
            "`Database.grant` for it (`pytools-hybrid database grant`), or use another role",
        )


class UnreadableRowError(DatabaseError):
    """A row of a tool on the server cannot be read."""

    def __init__(self, where: str, name: str, reason: str) -> None:
        super().__init__(
            where,
            f"{name} cannot be read ({reason}); run `pytools-hybrid index --check` on a host that "
            "has the tools",
        )


class SchemaError(DatabaseError):
    """The database has no schema of this package, or an older one."""

    def __init__(self, where: str, *, found: int | None, supported: int) -> None:
        what = "there is no index yet" if found is None else f"the index has schema {found}"
        super().__init__(
            where,
            f"{what}, and this version needs schema {supported}; run `Database.init` once as the "
            "owner (`pytools-hybrid database init`)",
        )
        self.found = found
        self.supported = supported
