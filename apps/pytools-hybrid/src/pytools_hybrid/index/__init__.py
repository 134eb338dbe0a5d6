"""The index of trees of tools: opening it, and keeping it up to date and embedded."""

from pytools_hybrid.index._aliases import Annotator
from pytools_hybrid.index._broken import BrokenTool
from pytools_hybrid.index._catch_up import IndexState
from pytools_hybrid.index._scan import Filling, refresh, scan_roots
from pytools_hybrid.index._shared import SharedIndex, server_unreachable
from pytools_hybrid.index._sqlite_file import size_on_disk
from pytools_hybrid.index.capabilities import (
    FILE_NAME,
    Capabilities,
    CapabilitiesError,
    Capability,
    parse_capabilities,
    read_text,
)
from pytools_hybrid.index.embed import configured_embedder, sooner_than
from pytools_hybrid.index.follow import Follower
from pytools_hybrid.index.index import Index
from pytools_hybrid.index.open import is_incumbent, open_store, set_aside_incumbent
from pytools_hybrid.index.store import SQLiteReader, SQLiteStore, has_numpy
from pytools_hybrid.index.usage import Recorder, Recording

__all__ = [
    "FILE_NAME",
    "Annotator",
    "BrokenTool",
    "Capabilities",
    "CapabilitiesError",
    "Capability",
    "Filling",
    "Follower",
    "Index",
    "IndexState",
    "Recorder",
    "Recording",
    "SQLiteReader",
    "SQLiteStore",
    "SharedIndex",
    "configured_embedder",
    "has_numpy",
    "is_incumbent",
    "open_store",
    "parse_capabilities",
    "read_text",
    "refresh",
    "scan_roots",
    "server_unreachable",
    "set_aside_incumbent",
    "size_on_disk",
    "sooner_than",
]
