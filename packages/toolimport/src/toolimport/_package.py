"""A generated folder: its manifest, and updating it without touching files of others."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

MANIFEST_FILE = "_manifest.json"
# Scans ignore names that begin with an underscore.
_LEFTOVER = "_importing-"
_LOCK = "_importing.lock"
_LOCK_SECONDS = 60.0
_LEFTOVER_SECONDS = 3600.0


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


def hash_of(file: Path) -> str | None:
    """Hash the file at a path; return `None` if nothing is there, "" if it is not a file."""
    try:
        return sha256(read_regular_file(file)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return "" if os.path.lexists(file) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The changes to a folder, as names of files; edited files were kept."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Hash a JSON value."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write_package(
    folder: Path, files: Mapping[str, str], manifest: Manifest, *, force: bool = False
) -> Written:
    """Update the generated files in a folder, and leave others alone, unless `force` is true.

    At any moment each module is complete and matches its `__init__.py`. If an import is killed, the
    next one finishes the folder.
    """
    # Imported here, because generated modules only read manifests.
    from tempfile import TemporaryDirectory

    with _alone(folder.parent):
        known = Manifest.read(folder) or Manifest(server="", source="", state="")
        data = {name: text.encode() for name, text in files.items()}
        hashes = {name: sha256(content).hexdigest() for name, content in data.items()}
        there = {name: hash_of(folder / name) for name in {*data, *known.files}}
        edited = {
            name
            for name, found in there.items()
            if found is not None and found not in (*known.files.get(name, ()), hashes.get(name))
        }
        kept = set[str]() if force else edited
        gone = {
            name for name in known.files.keys() - data.keys() if there[name] and name not in kept
        }
        new = {name for name in data if there[name] is None}
        changed = {name for name in data if there[name] not in (None, hashes[name])} - kept
        lasting = {name: (it,) for name, it in hashes.items() if name not in kept}
        final = replace(manifest, files=lasting)
        if folder.exists():
            both = {name: (*lasting.get(name, ()), *known.files.get(name, ())) for name in there}
            files_of_both = {name: it for name, it in both.items() if it}
            replace(manifest, files=files_of_both, state="").write(folder)
        with TemporaryDirectory(prefix=f"{_LEFTOVER}{folder.name}-", dir=folder.parent) as made:
            beside = Path(made) / folder.name
            beside.mkdir()
            for name in new | changed:
                (beside / name).write_bytes(data[name])
            if not folder.exists():
                final.write(beside)
                beside.replace(folder)
            else:
                # The file that the modules import is written first.
                for name in sorted(new | changed, key=lambda it: (it != "__init__.py", it)):
                    (beside / name).replace(folder / name)
                for name in gone:
                    (folder / name).unlink(missing_ok=True)
                final.write(folder)
        return Written(
            added=tuple(sorted(new)),
            changed=tuple(sorted(changed)),
            removed=tuple(sorted(gone)),
            kept=tuple(sorted(kept)),
        )


def remove_package(folder: Path, manifest: Manifest, *, force: bool = False) -> Written:
    """Remove the generated files in a folder, and the folder if it is then empty.

    An edited module stays, with the `__init__.py` that it imports.
    """
    from shutil import rmtree

    with _alone(folder.parent):
        ours = {name for name in manifest.files if force or manifest.is_ours(folder, name)}
        kept = {name for name in manifest.files if name not in ours and (folder / name).exists()}
        needed = {"__init__.py"} & ours if kept else set[str]()
        ours -= needed
        # The file that the modules import is removed last.
        for name in sorted(ours, key=lambda it: (it == "__init__.py", it)):
            (folder / name).unlink(missing_ok=True)
        rmtree(folder / "__pycache__", ignore_errors=True)
        if kept:
            left = {name: manifest.files[name] for name in kept | needed}
            replace(manifest, files=left, state="").write(folder)
        else:
            (folder / MANIFEST_FILE).unlink(missing_ok=True)
        with suppress(OSError):  # it contains other files
            folder.rmdir()
        return Written(removed=tuple(sorted(ours)), kept=tuple(sorted(kept)))


def clear_leftovers(folder: Path) -> None:
    """Remove files that a killed process left beside the servers' folders."""
    from shutil import rmtree

    for left in folder.glob(f"{_LEFTOVER}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFTOVER_SECONDS:
                rmtree(left, ignore_errors=True)


@contextmanager
def _alone(tree: Path) -> Generator[None]:
    """Keep other processes from writing to a tree at the same time."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(tree / _LOCK, timeout=_LOCK_SECONDS):
            yield
    except Timeout:
        raise OSError(f"another import holds {tree / _LOCK}") from None
