"""A server's folder: what is in it that is ours, and how it is brought up to date."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_FILE = "_manifest.json"
_LEFTOVER = "_importing-"
_LOCK = "_importing.lock"
_LOCK_SECONDS = 60.0
_LEFTOVER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was generated into a folder, so that nothing else is ever touched.

    Attributes:
        server: The server's name.
        source: The configuration file.
        state: A hash of all that the files were made from; "" while they are being written.
        files: The hashes that each file may have: one, or two while it is being written.
        tools: The name of each module's tool.
    """

    server: str
    source: str
    state: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tools: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Read a folder's manifest; `None` where there is none that can be read."""
        try:
            found = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            return cls(
                server=str(found["server"]),
                source=str(found["source"]),
                state=str(found["state"]),
                # Names alone: nobody's manifest reaches out of its folder.
                files={
                    name: tuple(map(str, it))
                    for name, it in found["files"].items()
                    if Path(name).name == name
                },
                tools={str(name): str(it) for name, it in found["tools"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, folder: Path) -> None:
        """Put the manifest into a folder, whole or not at all."""
        content = {
            "about": "Written by toolimport, to distinguish generated files from yours.",
            "server": self.server,
            "source": self.source,
            "state": self.state,
            "files": {name: list(it) for name, it in sorted(self.files.items())},
            "tools": dict(sorted(self.tools.items())),
        }
        new = folder / f"{_FILE}.new"
        # In a tree of strangers it may be a link to somewhere else.
        new.unlink(missing_ok=True)
        with new.open("x", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1, ensure_ascii=True) + "\n")
        new.replace(folder / _FILE)

    def is_ours(self, folder: Path, name: str) -> bool:
        """Return whether a file is as it was generated."""
        return _hash_of(folder / name) in self.files.get(name, ())

    def is_whole(self, folder: Path) -> bool:
        """Return whether all files are there as they were generated."""
        return bool(self.files) and all(self.is_ours(folder, name) for name in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was done to a folder; file names.

    Attributes:
        added: New ones.
        changed: Those with another content.
        removed: Those that are gone.
        kept: Those that were left alone though they differ: somebody has edited them.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Hash a value of JSON."""
    return _hash(json.dumps(value, sort_keys=True, ensure_ascii=True).encode())


def write_package(
    folder: Path, files: Mapping[str, str], manifest: Manifest, *, force: bool = False
) -> Written:
    """Make a folder hold some files, and leave alone what is not ours.

    At every moment each module is whole and fits its `__init__.py`; a process that is killed leaves
    a folder that the next one can finish.

    Args:
        folder: The server's folder; made if it is not there.
        files: The texts by name.
        manifest: What is to be remembered, without the files.
        force: Also overwrite and remove what somebody has edited.

    Raises:
        OSError: The folder cannot be written.
    """
    with _alone(folder.parent):
        return _written(folder, files, manifest, force=force)


def remove_package(folder: Path, manifest: Manifest, *, force: bool = False) -> Written:
    """Remove what was generated into a folder, and the folder where nothing else is in it.

    A module that somebody has edited stays, with the `__init__.py` that it imports.

    Raises:
        OSError: It cannot be removed.
    """
    with _alone(folder.parent):
        return _removed(folder, manifest, force=force)


def clear_leftovers(folder: Path) -> None:
    """Remove what a process that was killed has left beside the servers' folders."""
    for left in folder.glob(f"{_LEFTOVER}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _alone(tree: Path) -> Generator[None]:
    """Keep other processes from writing into a tree at the same time."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(tree / _LOCK, timeout=_LOCK_SECONDS):
            yield
    except Timeout:
        raise OSError(f"another import holds {tree / _LOCK}") from None


def _written(folder: Path, files: Mapping[str, str], manifest: Manifest, *, force: bool) -> Written:
    known = Manifest.read(folder) or Manifest(server="", source="", state="")
    data = {name: text.encode() for name, text in files.items()}
    hashes = {name: _hash(content) for name, content in data.items()}
    there = {name: _hash_of(folder / name) for name in {*data, *known.files}}
    edited = {
        name
        for name, found in there.items()
        if found is not None and found not in (*known.files.get(name, ()), hashes.get(name))
    }
    kept = set[str]() if force else edited
    gone = {name for name in known.files.keys() - data.keys() if there[name] and name not in kept}
    new = {name for name in data if there[name] is None}
    changed = {name for name in data if there[name] not in (None, hashes[name])} - kept
    lasting = {name: (it,) for name, it in hashes.items() if name not in kept}
    final = _with_files(manifest, lasting, manifest.state)
    if folder.exists():
        both = {name: (*lasting.get(name, ()), *known.files.get(name, ())) for name in there}
        _with_files(manifest, {n: it for n, it in both.items() if it}, "").write(folder)
    with tempfile.TemporaryDirectory(prefix=_prefix(folder), dir=folder.parent) as made:
        beside = Path(made) / folder.name
        beside.mkdir()
        for name in new | changed:
            (beside / name).write_bytes(data[name])
        if not folder.exists():
            final.write(beside)
            beside.replace(folder)
        else:
            # First what the modules import.
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


def _removed(folder: Path, manifest: Manifest, *, force: bool) -> Written:
    ours = {name for name in manifest.files if force or manifest.is_ours(folder, name)}
    kept = {name for name in manifest.files if name not in ours and (folder / name).exists()}
    needed = {"__init__.py"} & ours if kept else set[str]()
    ours -= needed
    # Last what the modules import.
    for name in sorted(ours, key=lambda it: (it == "__init__.py", it)):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    if kept:
        left = {name: manifest.files[name] for name in kept | needed}
        _with_files(manifest, left, "").write(folder)
    else:
        (folder / _FILE).unlink(missing_ok=True)
    with suppress(OSError):  # somebody's files are in it
        folder.rmdir()
    return Written(removed=tuple(sorted(ours)), kept=tuple(sorted(kept)))


def _prefix(folder: Path) -> str:
    # No scan looks into what begins with an underscore.
    return f"{_LEFTOVER}{folder.name}-"


def _with_files(manifest: Manifest, files: Mapping[str, tuple[str, ...]], state: str) -> Manifest:
    return Manifest(
        server=manifest.server,
        source=manifest.source,
        state=state,
        files=files,
        tools=manifest.tools,
    )


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()


def _hash_of(file: Path) -> str | None:
    """Hash what lies at a path; `None` where nothing does, "" where it is no file."""
    try:
        return _hash(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return "" if os.path.lexists(file) else None
