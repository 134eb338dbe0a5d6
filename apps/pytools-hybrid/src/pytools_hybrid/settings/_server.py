"""The address of an index on a server, which toolindex-postgres parses; it is an extra."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytools_hybrid.installation import install_command

if TYPE_CHECKING:
    import os

    from toolindex_postgres import Address

# `C:\\` is a drive.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://(?!\\)|postgres(ql)?:/", re.IGNORECASE)
# A misspelt address, or libpq's keywords, must not become a file with a password in its name.
_MEANT = re.compile(
    r"\s*(postgres(ql)?(:/|//)|(host|hostaddr|dbname|user|password)\s*=)|.*\spassword\s*="
    r"|.*\?(.*&)?tree=|[^/\s]+@[^/\s]+/[^/.\s]+$",
    re.IGNORECASE | re.DOTALL,
)


def parsed_database(value: object) -> Path | Address | None:
    """Return a value of the setting `database` as a path or an address."""
    text = str(value)
    if value is None or (isinstance(value, str | Path) and not _is_meant(text)):
        return None if value is None else Path(text)
    if find_spec("toolindex_postgres") is None:
        command = install_command("pytools-hybrid[postgres]")
        raise ValueError(f"an index on a server needs the extra postgres: {command}")
    from toolindex_postgres import Address

    if isinstance(value, Address):
        return value
    if not isinstance(value, str | Path):
        raise ValueError("give a path or an address")
    return Address.parse(text)


def _is_meant(text: str) -> bool:
    return is_address(text) or _MEANT.match(text) is not None


def is_address(value: str | os.PathLike[str]) -> bool:
    """Return whether a value of the setting is an address rather than a path."""
    return _SCHEME.match(str(value)) is not None
