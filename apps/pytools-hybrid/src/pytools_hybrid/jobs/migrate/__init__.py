"""Copying an index from a file to a shared server, and back."""

from pytools_hybrid.jobs.migrate._migrate import to_file, to_server

__all__ = ["to_file", "to_server"]
