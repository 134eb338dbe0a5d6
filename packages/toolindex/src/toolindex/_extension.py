"""Loading sqlite-vec, and finding out whether it can be loaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import apsw

from toolindex._places import are_exhausted


def load_sqlite_vec(connection: apsw.Connection) -> str:
    """Load sqlite-vec into a connection.

    Returns:
        Why this machine cannot load it, or an empty string.

    Raises:
        apsw.Error: The process has too many open files to find out.
        OSError: The same.
    """
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(_path())
        finally:
            connection.enable_load_extension(False)
    except (apsw.Error, ImportError, AttributeError, ValueError) as error:
        if are_exhausted(error):
            raise
        return str(error).removeprefix(f"{type(error).__name__}: ")
    return ""


def has_sqlite_vec(connection: apsw.Connection) -> bool:
    """Return whether vector tables can be used on a connection."""
    sql = "SELECT 1 FROM pragma_module_list WHERE name = 'vec0'"
    return connection.execute(sql).fetchone() is not None


def _path() -> str:
    # Importing the package for its path would also import numpy, which takes a tenth of a second.
    spec = find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package sqlite-vec is not installed", name="sqlite_vec")
    return str(Path(spec.submodule_search_locations[0], "vec0"))
