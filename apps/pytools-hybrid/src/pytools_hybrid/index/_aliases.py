"""Updating the aliases in the index whenever their files or the tools change."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytools_hybrid.index._capabilities import (
    FILE_NAME,
    Capabilities,
    CapabilitiesError,
    parse_capabilities,
    read_text,
)

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from toolindex import ToolStore

    from pytools_hybrid.settings import Roots

_log = logging.getLogger("pytools_hybrid")

_SHOWN = 5


@dataclass(slots=True)
class _Source:
    """The capabilities file of one root, as last read."""

    path: Path
    text: str | None = None
    capabilities: Capabilities | None = None
    problem: str | None = None
    is_told: bool = True

    def look(self) -> bool:
        """Read the file again, and return whether its content has changed."""
        before = self.text, self.problem
        try:
            text = read_text(self.path)
            if text != self.text or self.problem is not None:
                self.text, self.capabilities, self.problem = text, None, None
                self.capabilities = parse_capabilities(text, self.path)
        except CapabilitiesError as error:
            self.problem = str(error)
        changed = before != (self.text, self.problem)
        self.is_told = self.is_told and not changed
        return changed


class Annotator:
    """Keeps the aliases in a store equal to those in the files of its roots.

    An invalid file changes nothing: the tools of its root keep their aliases. Errors in a file, and
    ids in it that no tool has, are logged once for each version of the file.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._sources = {root: _Source(root / FILE_NAME) for root in roots}
        self._done_at: Hashable = None

    @property
    def problems(self) -> tuple[str, ...]:
        """The errors in the invalid files."""
        return tuple(it.problem for it in self._sources.values() if it.problem is not None)

    def annotate(self, store: ToolStore) -> int:
        """Read the files, and update aliases that differ; return how many tools have new ones.

        The caller holds the lease for files.
        """
        changed = [source.look() for source in self._sources.values()]
        with store.reading() as reader:
            state = reader.state_of()
        if not any(changed) and self._done_at == state:
            return 0
        if any(it.problem or _says_anything(it) for it in self._sources.values()):
            count = self._annotate_by_root(store)
        else:
            count = store.annotate({})
        # A change of the store is checked again the next time.
        self._done_at = None if count else state
        return count

    def _annotate_by_root(self, store: ToolStore) -> int:
        ids: dict[Path, list[str]] = {root: [] for root in self._sources}
        for entry in store.stored(reader_version="").entries.values():
            ids[self._roots.resolve(entry.path)[0]].append(entry.id)
        aliases: dict[str, tuple[str, ...]] = {}
        keep: list[str] = []
        for root, source in self._sources.items():
            if source.problem is not None or source.capabilities is None:
                keep += ids[root]
            else:
                aliases |= source.capabilities.aliases(ids[root])
            self._tell(source, ids[root])
        return store.annotate(aliases, keep=keep)

    def _tell(self, source: _Source, ids: list[str]) -> None:
        if source.is_told:
            return
        source.is_told = True
        if source.problem is not None:
            _log.warning("%s; its previous content still applies", source.problem)
        elif source.capabilities is not None:
            idle = source.capabilities.idle(frozenset(ids))
            if idle:
                more = f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else ""
                shown = ", ".join(map(repr, idle[:_SHOWN]))
                _log.warning("%s: no tool of this folder has the id %s%s", source.path, shown, more)


def _says_anything(source: _Source) -> bool:
    return source.capabilities is not None and bool(source.capabilities.entries)
