"""The id under which a model's vectors are kept: with another length it counts as another model.

Vectors of the first length are kept under the model's own id, those of any other length beside
them, under `openai:some-model [32]`.

Where all texts are embedded again, a mark says since when vectors count as new; those that the
model gave before stay in use. Older ones are replaced one by one, and nothing is deleted before
all are: after a kill, it is still known what is left to be embedded.
"""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING

from toolindex._meta import get_meta, set_meta

if TYPE_CHECKING:
    import apsw

_MARK = "renewed since "


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


def begin_renewal(connection: apsw.Connection, kept: str) -> None:
    """Count all vectors that are kept under an id as old from now on."""
    sql = "SELECT max(stored_at) FROM embeddings WHERE model_id = ?"
    latest = connection.execute(sql, (kept,)).get or 0.0
    # Later than all that there are, also where the clock has gone back.
    set_meta(connection, _MARK + kept, repr(max(time.time(), math.nextafter(latest, math.inf))))


def renewed_since(connection: apsw.Connection, kept: str) -> float:
    """Return the time before which vectors count as old; 0 where none does."""
    return float(get_meta(connection, _MARK + kept) or 0)


def renewals(connection: apsw.Connection) -> list[str]:
    """Return the ids whose vectors are being replaced."""
    sql = "SELECT substr(key, length(?1) + 1) FROM meta WHERE substr(key, 1, length(?1)) = ?1"
    return [str(kept) for (kept,) in connection.execute(sql, (_MARK,))]


def end_renewal(connection: apsw.Connection, kept: str) -> None:
    """Delete the old vectors that were not replaced, once all texts have a new one."""
    connection.execute(
        "DELETE FROM embeddings WHERE model_id = ? AND stored_at < ? "
        "AND text_hash NOT IN (SELECT text_hash FROM entries)",
        (kept, renewed_since(connection, kept)),
    )
    connection.execute("DELETE FROM query_embeddings WHERE model_id = ?", (model_of(kept),))
    connection.execute("DELETE FROM meta WHERE key = ?", (_MARK + kept,))
