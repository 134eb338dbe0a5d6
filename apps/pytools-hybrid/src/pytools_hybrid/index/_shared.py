"""Opening an index shared by many hosts: a PostgreSQL database, and this host's copy of it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.installation import install_command

if TYPE_CHECKING:
    from toolindex import ToolStore

    from pytools_hybrid.settings import Roots, Settings

_PACKAGE = "toolindex_postgres"


def open_shared(roots: Roots, settings: Settings) -> ToolStore:
    """Open the index of some trees on the server in the settings.

    Args:
        roots: The trees, which need not exist if the index is only read.
        settings: The settings.

    Raises:
        SettingsError: A required package is not installed, or nothing says which tree it is.
    """
    server = settings.resolved_server(roots)
    name = settings.origins.get("database", "database")
    if find_spec(_PACKAGE) is None:
        remedy = install_command("pytools-hybrid[postgres]")
        raise SettingsError(name, f"{server} needs the extra postgres: {remedy}")
    raise SettingsError(name, "an index cannot be on a PostgreSQL server yet; give a path")
