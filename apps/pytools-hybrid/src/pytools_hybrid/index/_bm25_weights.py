"""How much words count in each part of a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex import IndexReader

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
            words=tuple(words[column] for column in IndexReader.FTS_COLUMNS),
            fuzzy=tuple(fuzzy[column] for column in IndexReader.FTS_COLUMNS),
        )
