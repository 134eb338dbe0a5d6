# pyright: basic
"""A PostgreSQL server of the tests' own, with addresses that contain a password."""

from __future__ import annotations

import runpy
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "packages" / "toolindex-postgres"
_own = runpy.run_path(str(_PACKAGE / "tests" / "postgres.py"))
Replica, serving = _own["Replica"], _own["serving"]
SECRET = "hunter2"


class Server(_own["Server"]):
    """A server whose addresses are URLs."""

    def address(self, database: str = "postgres", *, user: str = "postgres", tree: str = "") -> str:
        """Return an address with a password, which the server does not check."""
        named = f"&tree={tree}" if tree else ""
        return f"postgresql://{user}:{SECRET}@/{database}?host={self.folder}{named}"
