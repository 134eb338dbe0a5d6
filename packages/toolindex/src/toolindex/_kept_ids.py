"""The id under which a model's vectors are kept: with another length it counts as another model.

Vectors of the first length are kept under the model's own id, those of any other length beside
them, under `openai:some-model [32]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw


def kept_id(connection: apsw.Connection, model_id: str, dimensions: int | None = None) -> str:
    """Return the id under which the vectors of a model are kept.

    Args:
        connection: A connection to the index.
        model_id: The model.
        dimensions: The length of the vectors; None for the length that was put to use last.
    """
    if dimensions is None:
        used_last = connection.execute(
            "SELECT model_id FROM models WHERE model_id = ?1 "
            "OR substr(model_id, 1, length(?1) + 2) = ?1 || ' [' ORDER BY used_at DESC LIMIT 1",
            (model_id,),
        ).get
        return model_id if used_last is None else str(used_last)
    first = kept_dimensions(connection, model_id)
    return model_id if first in {None, dimensions} else f"{model_id} [{dimensions}]"


def model_of(kept: str) -> str:
    """Return the model whose vectors are kept under an id."""
    return re.sub(r" \[\d+\]$", "", kept)


def kept_dimensions(connection: apsw.Connection, kept: str) -> int | None:
    """Return the length of the vectors that are kept under an id, or None where there are none."""
    sql = "SELECT length(vector) / 4 FROM embeddings WHERE model_id = ? LIMIT 1"
    return connection.execute(sql, (kept,)).get  # type: ignore[no-any-return]
