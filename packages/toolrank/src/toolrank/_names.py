"""Retrieval by name: rows whose name is in the request."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from toolrank._query import encodable, query_words
from toolrank._records import Filter, Hit, Query
from toolrank._spelling import stems
from toolrank._sql import Content, identifier
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolrank.protocols import Connection

_WHOLE = 1.0
_MENTIONED = 0.5
_MAX_NAME = 256
_MAX_MENTIONS = 16
# Who pastes more names things in passing.
_MAX_REQUEST = 500
_TOKEN = re.compile(r"[\w.:-]+")
_JOINT = re.compile(r"[_.:-]+")


def name_key(name: str) -> str:
    """Reduce a name to its letters and digits in lower case, so that its spellings are equal.

    `createPullRequest`, `create-pull-request` and "Create Pull Request" give
    `createpullrequest`. Store the key of each name in a column with an index on it.
    """
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", name).lower()))


def name_share(request: str, name: str) -> float:
    """Return the share of a name's words that a request has, in any inflection.

    "merging two files" has one of the two words of `merge_pdfs`. Of the words of a long request,
    the first ones count.
    """
    words, wanted = _words_of(name), _wanted(request)
    return sum(not wanted.isdisjoint(word) for word in words) / len(words) if words else 0.0


@lru_cache(maxsize=1 << 14)
def _words_of(name: str) -> tuple[tuple[str, ...], ...]:
    words = query_words(name[:_MAX_NAME])
    return tuple(stems(part) for word in words for part in word.parts or (word.surface.lower(),))


@lru_cache(maxsize=256)
def _wanted(request: str) -> frozenset[str]:
    words = query_words(request[:_MAX_REQUEST])
    return frozenset(stem for word in words for term in word.terms for stem in stems(term))


class NameRetriever:
    """Find the rows that a request names, however it spells the name.

    A request is a name if it is one once both are reduced by `name_key`, or if it is a row's
    id. A longer request, up to 500 characters, mentions a name if it holds an identifier that is
    one: a word with a capital inside or with `_`, `-`, `.` or `:` between its parts, as in
    "use create_issue". Ordinary words of a longer request are never taken for names.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        content: The table of the names, and its column of ids.
        keys: Its columns that hold `name_key` of a name: bare names, names with what they
            belong to. Without an index on them, each request reads the whole table.
        where: The rows to search among.
        name: What to call this retriever in contributions.

    Raises:
        RankingArgumentError: No column, or a name of one that is not plain.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        content: Content,
        keys: Sequence[str],
        where: Filter | None = None,
        name: str = "name",
    ) -> None:
        if not keys:
            raise RankingArgumentError("keys", "name at least one column")
        self._connection = connection
        columns = [identifier(key, argument="keys") for key in keys]
        self._allowed = where.rows if where else None
        asks = where is not None and self._allowed is None
        # The + keeps SQLite from searching once for each allowed row.
        allowed = f" AND +rowid IN ({where.sql})" if where and asks else ""
        self._sql = " UNION ALL ".join(
            f"SELECT rowid, {content.column}, {column} FROM {content.table} "  # noqa: S608
            f"WHERE {column} IN (SELECT value FROM json_each(?)){allowed}"
            for column in (content.column, *columns)
        )
        self._columns = len(columns)
        self._where_parameters = where.parameters if where and asks else ()
        self._name = name

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return at most `depth` rows that the request names.

        The score is 1.0 where the request is the name, 0.5 where it mentions it.

        Raises:
            RetrievalError: The table or a column is missing.
        """
        ids: dict[str, float] = {}
        keys: dict[str, float] = {}
        for named, score in _named(query.text):
            ids.setdefault(encodable(named), score)
            keys.setdefault(name_key(named), score)
        if not any(keys):
            return []
        parameters: list[object] = [json.dumps(list(ids)), *self._where_parameters]
        for _ in range(self._columns):
            parameters += [json.dumps(list(keys)), *self._where_parameters]
        try:
            rows = list(self._connection.execute(self._sql, tuple(parameters)))
        except Exception as error:
            # Each driver has errors of its own, with no common root below Exception.
            raise RetrievalError(self._name, error) from error
        scores: dict[str, float] = {}
        for row, id_, named in rows:
            if self._allowed is not None and row not in self._allowed:
                continue
            # SQLite may find an id that Python would not: a number, or another case.
            score = max(ids.get(named, 0.0), keys.get(named, 0.0)) or _MENTIONED
            scores[str(id_)] = max(score, scores.get(str(id_), 0.0))
        ranked = sorted((-score, id_) for id_, score in scores.items())
        return [Hit(id=id_, score=-cost) for cost, id_ in ranked[:depth]]


def _named(text: str) -> Iterator[tuple[str, float]]:
    """Yield possible names, the most certain first, with the score of a row of that name."""
    if len(text) <= _MAX_NAME:
        yield text.strip(), _WHOLE
    if len(text) <= _MAX_REQUEST:
        tokens = (match[0].strip("_.:-") for match in _TOKEN.finditer(text))
        for token in islice(filter(_is_identifier, tokens), _MAX_MENTIONS):
            yield token, _MENTIONED


def _is_identifier(token: str) -> bool:
    if any(a.islower() and b.isupper() for a, b in pairwise(token)):
        return True
    parts = _JOINT.split(token)
    # "e-mail" and "T-test" are words, and "10:30" and "3.5" are values.
    return len(parts) > 1 and any(map(str.isalpha, token)) and min(map(len, parts)) > 1
