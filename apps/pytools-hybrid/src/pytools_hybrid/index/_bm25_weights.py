"""The BM25 parameters of the index: how much words count in each part of a tool, and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex import FTS_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

# Chosen by ablation: docs/decisions/0008.
_COLUMN_WEIGHTS = {
    "name_words": 5.0,
    "description": 1.0,
    "parameter_words": 0.75,
    "category_words": 1.0,
    "tag_words": 1.0,
    "segments": 1.0,
    # Aliases of some tools must not hide the other tools: docs/decisions/0013.
    "alias_words": 0.5,
}
# People who type part of a word mean a name: docs/decisions/0010.
_FUZZY_COLUMN_WEIGHTS = {**_COLUMN_WEIGHTS, "description": 0.5, "parameter_words": 0.5}
_FIELDS = {
    "name": "name_words",
    "description": "description",
    "parameters": "parameter_words",
    "category": "category_words",
    "tags": "tag_words",
}
# Terms in a larger share of the tools distinguish nothing, and cost the most.
COMMON = 0.3
# A tool with all the words of a request is better than one that repeats some of them.
EVENNESS = 0.75
SIMILAR_WEIGHT = 0.7
SYNONYM_WEIGHT = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnWeights:
    """The weights of the columns of the full-text table, in their order."""

    words: tuple[float, ...]
    fuzzy: tuple[float, ...]

    @classmethod
    def of(cls, fields: Mapping[str, float]) -> ColumnWeights:
        set_ = {_FIELDS[field]: weight for field, weight in fields.items()}
        words, fuzzy = _COLUMN_WEIGHTS | set_, _FUZZY_COLUMN_WEIGHTS | set_
        return cls(
            words=tuple(words[column] for column in FTS_COLUMNS),
            fuzzy=tuple(fuzzy[column] for column in FTS_COLUMNS),
        )
