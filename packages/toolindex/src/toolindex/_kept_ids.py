"""The id under which a model's vectors are kept, which depends on their length.

Vectors of the first length are kept under the model's own id, those of another length under an id
such as `openai:some-model [32]`.

When all texts are embedded again, a mark says from when on vectors count as new, and old ones stay
in use. They are replaced one by one, and deleted only when all are: after a kill it is still known
which texts are left.
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

    Without `dimensions` it is that of the length used last.
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
    """Return the length of the vectors that are kept under an id, or None if there are none."""
    sql = "SELECT length(vector) / 4 FROM embeddings WHERE model_id = ? LIMIT 1"
    return connection.execute(sql, (kept,)).get  # type: ignore[no-any-return]


def begin_renewal(connection: apsw.Connection, kept: str) -> None:
    """Mark all vectors that are kept under an id as old."""
    sql = "SELECT max(stored_at) FROM embeddings WHERE model_id = ?"
    latest = connection.execute(sql, (kept,)).get or 0.0
    # Later than all existing ones, even if the clock was set back.
    set_meta(connection, _MARK + kept, repr(max(time.time(), math.nextafter(latest, math.inf))))


def renewed_since(connection: apsw.Connection, kept: str) -> float:
    """Return the time before which vectors count as old; 0 if none do."""
    return float(get_meta(connection, _MARK + kept) or 0)


def renewals(connection: apsw.Connection) -> list[str]:
    """Return the ids whose vectors are being replaced."""
    sql = "SELECT substr(key, length(?1) + 1) FROM meta WHERE substr(key, 1, length(?1)) = ?1"
    return [str(kept) for (kept,) in connection.execute(sql, (_MARK,))]


def end_renewal(connection: apsw.Connection, kept: str) -> None:
    """Delete old vectors that were not replaced, once all texts have new ones."""
    connection.execute(
        "DELETE FROM embeddings WHERE model_id = ? AND stored_at < ? "
        "AND text_hash NOT IN (SELECT text_hash FROM entries)",
        (kept, renewed_since(connection, kept)),
    )
    connection.execute("DELETE FROM query_embeddings WHERE model_id = ?", (model_of(kept),))
    connection.execute("DELETE FROM meta WHERE key = ?", (_MARK + kept,))
