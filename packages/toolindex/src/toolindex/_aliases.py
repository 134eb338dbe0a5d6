"""Aliases: other words for tools, kept separate from the content of their files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toolindex._meta import bump_generation
from toolindex._rows import alias_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import apsw

_NONE = "[]"


def changed_aliases(
    connection: apsw.Connection, aliases: Mapping[str, Sequence[str]], *, keep: Collection[str]
) -> dict[str, Sequence[str]]:
    """Return the new aliases, by id, of the tools whose aliases have to change.

    The arguments are those of `ToolIndex.annotate`.
    """
    kept = frozenset(keep)
    rows = connection.execute("SELECT id, aliases FROM entries WHERE aliases != '[]'")
    held = {id_: texts for id_, texts in rows if id_ not in kept}
    wanted = {id_: _sayable(texts) for id_, texts in aliases.items() if id_ not in kept}
    changed = [id_ for id_, texts in wanted.items() if held.get(id_, _NONE) != _to_json(texts)]
    # As one JSON value, which allows any number of ids, and any string.
    existing = connection.execute(
        "SELECT id FROM entries WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(changed),),
    )
    lost: dict[str, Sequence[str]] = {id_: () for id_ in held if id_ not in wanted}
    return lost | {id_: wanted[id_] for (id_,) in existing}


def apply_aliases(connection: apsw.Connection, changed: Mapping[str, Sequence[str]]) -> None:
    """Set the aliases of some tools inside the caller's write transaction."""
    connection.executemany(
        "UPDATE entries SET aliases = ?, alias_words = ? WHERE id = ?",
        ((_to_json(texts), alias_words(texts), id_) for id_, texts in changed.items()),
    )
    bump_generation(connection)


def _to_json(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)


def _sayable(texts: Sequence[str]) -> list[str]:
    """Replace lone surrogates, which no database can store."""
    return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
