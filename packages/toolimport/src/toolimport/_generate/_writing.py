"""Updating a server's folder, without touching files that were not generated."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolimport._manifest import MANIFEST_FILE, Manifest, hash_bytes, hash_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

# Scans ignore names that begin with an underscore.
_LEFTOVER = "_importing-"
_LOCK = "_importing.lock"
_LOCK_SECONDS = 60.0
_LEFTOVER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The changes to a folder, as names of files; edited files were kept."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Hash a JSON value."""
    return hash_bytes(json.dumps(value, sort_keys=True, ensure_ascii=True).encode())


def write_package(
    folder: Path, files: Mapping[str, str], manifest: Manifest, *, force: bool = False
) -> Written:
    """Update the generated files in a folder, and leave others alone, unless `force` is true.

    At any moment each module is complete and matches its `__init__.py`. If an import is killed, the
    next one finishes the folder.
    """
    with _alone(folder.parent):
        known = Manifest.read(folder) or Manifest(server="", source="", state="")
        data = {name: text.encode() for name, text in files.items()}
        hashes = {name: hash_bytes(content) for name, content in data.items()}
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
        with tempfile.TemporaryDirectory(
            prefix=f"{_LEFTOVER}{folder.name}-", dir=folder.parent
        ) as made:
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
    with _alone(folder.parent):
        ours = {name for name in manifest.files if force or manifest.is_ours(folder, name)}
        kept = {name for name in manifest.files if name not in ours and (folder / name).exists()}
        needed = {"__init__.py"} & ours if kept else set[str]()
        ours -= needed
        # The file that the modules import is removed last.
        for name in sorted(ours, key=lambda it: (it == "__init__.py", it)):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
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
    for left in folder.glob(f"{_LEFTOVER}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _alone(tree: Path) -> Generator[None]:
    """Keep other processes from writing to a tree at the same time."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(tree / _LOCK, timeout=_LOCK_SECONDS):
            yield
    except Timeout:
        raise OSError(f"another import holds {tree / _LOCK}") from None
