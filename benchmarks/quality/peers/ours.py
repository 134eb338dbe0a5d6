"""This project: `ToolSearch` over the tree, with its defaults."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytools_hybrid import SearchMode, Settings, ToolSearch
from sets import Tool
from typing_extensions import override

from peers import Method

__all__ = ["PytoolsHybrid"]


class PytoolsHybrid(Method):
    """Searches an index of the tree in a separate file.

    Args:
        mode: The channels.
        fusion: How their rankings are combined.
    """

    def __init__(self, mode: str, fusion: str) -> None:
        self._mode = SearchMode(mode)
        self._fusion = fusion
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory()
        self._opened: ToolSearch | None = None

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        database = Path(self._folder.name, "index.db")
        settings = Settings.from_flags(
            {"database": database, "fusion": self._fusion, "usage_log": False}
        )
        self._runner.run(self._fill(ToolSearch(tree, settings, refresh=False), len(tools)))

    async def _fill(self, search: ToolSearch, expected: int) -> None:
        self._opened = await search.__aenter__()
        report = (await search.index.update(vectors=False)).report
        if report.added != expected:
            raise RuntimeError(f"indexed {report.added} tools, the others were given {expected}")
        if search.uses_vectors(self._mode):
            await search.index.update(files=False)

    @override
    def search(self, query: str, k: int) -> list[str]:
        if self._opened is None:
            raise RuntimeError("search before index")
        response = self._runner.run(self._opened.search(query, mode=self._mode, limit=k))
        if response.lost:
            raise RuntimeError(f"a channel was lost: {'; '.join(response.lost)}")
        return [str(found.entry.id) for found in response.tools]

    @override
    def close(self) -> None:
        if self._opened is not None:
            self._runner.run(self._opened.__aexit__(None, None, None))
        self._runner.close()
        self._folder.cleanup()
