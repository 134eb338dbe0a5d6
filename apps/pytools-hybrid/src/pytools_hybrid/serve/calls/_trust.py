"""Trusted MCP servers: those in configuration files that this user has imported.

A tree can come from anywhere, and its manifests can name any file and server. So imports are
recorded in the user's own folder, in a file for each configuration and root.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING

from pytools_hybrid.files import own_folder, replace_file

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "imported"


def trust(servers_file: Path, root: Path) -> None:
    """Record that this user has imported a configuration file into a root."""
    note = _note(servers_file, root)
    note.parent.mkdir(parents=True, exist_ok=True)
    content = {"servers_file": _full(servers_file), "root": _full(root)}
    replace_file(note, json.dumps(content, indent=1).encode() + b"\n", mode=0o600)


def is_trusted(servers_file: Path, root: Path) -> bool:
    """Return whether servers in a configuration file may be started for a root's tools.

    They may if this user has imported the file into that root, or if `PYTOOLS_SERVERS` overrides
    the file.
    """
    return bool(os.environ.get("PYTOOLS_SERVERS")) or _note(servers_file, root).is_file()


def _note(servers_file: Path, root: Path) -> Path:
    pair = json.dumps([_full(servers_file), _full(root)])
    return own_folder() / _FOLDER / f"{sha256(pair.encode()).hexdigest()[:32]}.json"


def _full(path: Path) -> str:
    return os.path.realpath(path.expanduser())
