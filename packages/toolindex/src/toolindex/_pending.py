"""Texts that a model has yet to embed, and those that it has refused."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from toolindex._kept_ids import kept_id, renewed_since
from toolindex._rows import text_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import apsw

# The first refusal may be a provider's hiccup; the tenth hardly is.
_FIRST_DELAY = 45.0
_LONGEST_DELAY = 24 * 3600.0
_FORGOTTEN_SECONDS = 30 * 24 * 3600.0
_DELAY = f"min({_LONGEST_DELAY}, {_FIRST_DELAY} * (1 << min(times - 1, 20)))"
# A refusal with a future date was recorded with a wrong clock.
_REFUSED = f"abs(at - :now) < {_DELAY}"
# The order makes SQLite merge three indexes, reading each once from its beginning; without it,
# every text is looked up in two of them.
_PENDING = (
    "SELECT text_hash FROM entries {among} "  # noqa: S608 - constants
    "EXCEPT SELECT text_hash FROM embeddings WHERE model_id = :kept {renewed} "
    f"EXCEPT SELECT text_hash FROM refusals WHERE model_id = :model AND {_REFUSED} "
    "ORDER BY text_hash LIMIT :limit"
)


def count_pending(connection: apsw.Connection, model_id: str) -> int:
    """Count the texts that have no vector of this model yet, without those it refused."""
    pending, parameters = _pending(connection, model_id, -1)
    return int(connection.execute(f"SELECT count(*) FROM ({pending})", parameters).get)  # noqa: S608


def pending_texts(
    connection: apsw.Connection,
    model_id: str,
    *,
    limit: int,
    among: Collection[str] | None = None,
) -> dict[str, str]:
    """Return up to `limit` texts, by hash, that have no vector of this model yet."""
    pending, parameters = _pending(connection, model_id, limit, among)
    # Ordered by rowid, so that vectors of neighbouring rows are stored together.
    rows = connection.execute(
        f"WITH pending AS MATERIALIZED ({pending}) "  # noqa: S608
        "SELECT e.text_hash, e.id, e.description, e.parameters, e.tags "
        "FROM pending CROSS JOIN entries AS e ON e.rowid = "
        "(SELECT min(rowid) FROM entries WHERE entries.text_hash = pending.text_hash) "
        "ORDER BY e.rowid",
        parameters,
    )
    return {str(text_hash): text_of(row) for text_hash, *row in rows}


def text_hashes(connection: apsw.Connection, ids: Collection[str]) -> set[str]:
    """Return the hashes of the texts of some tools."""
    rows = connection.execute(
        "SELECT text_hash FROM entries WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {str(text_hash) for (text_hash,) in rows}


def _pending(
    connection: apsw.Connection,
    model_id: str,
    limit: int,
    among: Collection[str] | None = None,
) -> tuple[str, dict[str, str | float]]:
    kept = kept_id(connection, model_id)
    since = renewed_since(connection, kept)
    # No index covers the time of a vector, so it is only compared if it matters.
    renewed = "AND stored_at >= :since" if since else ""
    some = "" if among is None else "WHERE text_hash IN (SELECT value FROM json_each(:among))"
    return _PENDING.format(renewed=renewed, among=some), {
        "model": model_id,
        "kept": kept,
        "now": time.time(),
        "limit": limit,
        "since": since,
        "among": json.dumps(list(among or ())),
    }


def refuse(connection: apsw.Connection, model_id: str, reasons: Mapping[str, str]) -> None:
    """Record why a model refused some texts, and delete refusals that have expired."""
    now = time.time()
    connection.execute("DELETE FROM refusals WHERE abs(at - ?) > ?", (now, _FORGOTTEN_SECONDS))
    connection.executemany(
        "INSERT INTO refusals (model_id, text_hash, reason, at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (model_id, text_hash) "
        "DO UPDATE SET reason = excluded.reason, at = excluded.at, times = times + 1",
        ((model_id, text_hash, reason, now) for text_hash, reason in reasons.items()),
    )


def refused_tools(connection: apsw.Connection, model_id: str) -> dict[str, str]:
    """Return why a model refused the texts of tools, by id."""
    rows = connection.execute(
        "SELECT e.id, r.reason FROM refusals AS r CROSS JOIN entries AS e "  # noqa: S608
        f"ON e.text_hash = r.text_hash WHERE r.model_id = :model AND {_REFUSED} ORDER BY e.id",
        {"model": model_id, "now": time.time()},
    )
    return {str(id_): str(reason) for id_, reason in rows}
