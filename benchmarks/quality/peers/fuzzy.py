"""rapidfuzz: `process.extract` over "name: description"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rapidfuzz import fuzz, process, utils
from sets import Tool
from typing_extensions import override

from peers import Method

__all__ = ["RapidFuzz"]


class RapidFuzz(Method):
    """Compares the query with every tool's text, both in lower case and without punctuation.

    Args:
        scorer: One of rapidfuzz.fuzz; the default of `process.extract` is WRatio.
    """

    def __init__(self, scorer: str) -> None:
        self._scorer = getattr(fuzz, scorer)
        self._choices: dict[str, str] = {}

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        self._choices = {tool.id: f"{tool.name}: {tool.description}" for tool in tools}

    @override
    def search(self, query: str, k: int) -> list[str]:
        found = process.extract(
            query,
            self._choices,
            scorer=self._scorer,
            processor=utils.default_process,
            limit=k,
        )
        return [id_ for _, _, id_ in found]
