"""Advice on how a tool's text could make it easier to find."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolscan import ToolId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolindex import ToolEntry

    from pytools_hybrid.search import FoundTool

_FEWEST_WORDS = 3
_SHOWN = 5
_WORD = re.compile(r"[^\W_]+")


def advice(entry: ToolEntry, similar: Iterable[FoundTool]) -> list[str]:
    """Return sentences on what would make a tool easier to find; none if all is well.

    Args:
        entry: The tool.
        similar: Similar tools.
    """
    found: list[str] = []
    name = _words(" ".join(ToolId.words_of(entry.id.name)))
    # A file without any docstring is not a tool; the catalogue lists it as left out.
    if len(_words(entry.description) - name) < _FEWEST_WORDS:
        found.append(
            "Its docstring says little more than its name: write what it does, to what, and when "
            "to use it."
        )
    summary = entry.summary.casefold()
    if summary and (same := [it.id for it in similar if it.summary.casefold() == summary]):
        found.append(f"Its summary is the same as that of {_listed(same)}: write how they differ.")
    silent = [it.alias or it.name for it in entry.parameters if not it.description.strip()]
    if silent:
        share = f"{len(silent)} of {len(entry.parameters)} parameters have no description"
        found.append(f"{share}: {_listed(silent)}. Describe them in the docstring.")
    return found


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
