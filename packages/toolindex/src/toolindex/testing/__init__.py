"""Contract kits: run these over your own implementation of a toolindex protocol."""

from toolindex.testing._store import check_store

__all__ = ["check_store"]
