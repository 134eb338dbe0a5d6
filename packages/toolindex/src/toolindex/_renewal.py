"""Embedding all texts again, while the vectors that the model gave before stay in use.

A mark says since when vectors count as new. Older ones are replaced one by one, and nothing is
deleted before all are: after a kill, it is still known what is left to be embedded.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from toolindex._kept_ids import model_of
from toolindex._meta import get_meta, set_meta

if TYPE_CHECKING:
    import apsw

_MARK = "renewed since "


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
