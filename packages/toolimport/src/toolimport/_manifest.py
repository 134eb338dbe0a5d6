"""The manifest of a generated folder: which files were generated, and the tools' schemas."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST_FILE = "_manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The record of the files generated into a folder, so that no others are ever touched.

    Attributes:
        state: A hash of everything the files were generated from; empty while they are being
            written.
        files: The expected hashes of each file: one, or two while it is being written.
        tools: The names of the tools, by module.
        definitions: The server's `input_schema` and `annotations` of each tool, by module.
    """

    server: str
    source: str
    state: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Read a folder's manifest; return `None` if there is none that can be read."""
        try:
            found = json.loads(read_regular_file(folder / MANIFEST_FILE).decode("utf-8"))
            return cls(
                server=str(found["server"]),
                source=str(found["source"]),
                state=str(found["state"]),
                # Only names, because no manifest may reach outside its folder.
                files={
                    name: tuple(map(str, it))
                    for name, it in found["files"].items()
                    if Path(name).name == name
                },
                tools={str(name): str(it) for name, it in found["tools"].items()},
                # Older versions did not write definitions.
                definitions={
                    str(name): dict(it) for name, it in found.get("definitions", {}).items()
                },
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, folder: Path) -> None:
        """Write the manifest to a folder in one step."""
        content = {
            "about": "Written by toolimport, to distinguish generated files from yours.",
            "server": self.server,
            "source": self.source,
            "state": self.state,
            "files": {name: list(it) for name, it in sorted(self.files.items())},
            "tools": dict(sorted(self.tools.items())),
            "definitions": dict(sorted(self.definitions.items())),
        }
        new = folder / f"{MANIFEST_FILE}.new"
        # In an untrusted tree it may be a link to another place.
        new.unlink(missing_ok=True)
        with new.open("x", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1, ensure_ascii=True) + "\n")
        new.replace(folder / MANIFEST_FILE)

    def is_ours(self, folder: Path, name: str) -> bool:
        """Return whether a file is unchanged since it was generated."""
        return hash_of(folder / name) in self.files.get(name, ())

    def is_whole(self, folder: Path) -> bool:
        """Return whether all files exist unchanged since they were generated."""
        return bool(self.files) and all(self.is_ours(folder, name) for name in self.files)


def hash_bytes(content: bytes) -> str:
    """Return the hash of some content, as in manifests."""
    return sha256(content).hexdigest()


def hash_of(file: Path) -> str | None:
    """Hash the file at a path; return `None` if nothing is there, "" if it is not a file."""
    try:
        return hash_bytes(read_regular_file(file))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return "" if os.path.lexists(file) else None
