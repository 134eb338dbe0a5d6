"""The store for copies, from the tests of toolindex."""

import runpy
from pathlib import Path

_TESTS = Path(__file__).parents[2] / "toolindex" / "tests"
SQLiteStore = runpy.run_path(str(_TESTS / "sqlite_store.py"))["SQLiteStore"]
