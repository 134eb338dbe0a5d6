"""Retrieval by name: rows that the request names, and names with another verb than the request.

For example, "open an issue" does not ask for `get_issue`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from toolrank._arguments import identifier, json_array
from toolrank._query import encodable, query_words
from toolrank._records import Hit
from toolrank._spelling import stems
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolrank._records import Filter, IdColumn
    from toolrank.protocols import Connection

_WHOLE = 1.0
_MENTIONED = 0.5
_MAX_NAME = 256
_MAX_MENTIONS = 16
# A longer text only mentions names in passing.
_MAX_REQUEST = 500
_NAMELIKE = r"[\w.:-]+"
_JOINT = r"[_.:-]+"
VERB_PENALTY = 0.1
"""The share of its score that a hit loses whose name has another action than the request."""

# English verbs of requests and names, by action. Showing one thing and
# showing many are different actions if the request says which.
_ACTIONS = {
    "one": "show get read view display fetch retrieve describe see print",
    "many": "list search find log history query browse scan",
    "create": "create add new make insert append write compose draft generate upload attach post",
    "delete": "delete remove drop destroy clear erase purge discard",
    "change": "update edit change modify rename patch append insert write move set",
    "start": "start begin launch resume subscribe watch connect enable follow",
    "stop": "stop end finish cancel halt abort unsubscribe unwatch disconnect disable terminate "
    "unfollow remove",
}
_SHOWING = frozenset({"one", "many"})
# These may ask for a tool itself, or for a tool that finds something.
_SEEKING = frozenset(_ACTIONS["many"].split()) - {"list"}
_QUESTIONS = frozenset({"which", "what", "who", "whose", "where", "when", "how"})
_POLITE = frozenset(
    """
    please kindly just now then and can could would should must you i we want need like to help me
    us let a tool function for that
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)
_ANOTHER = frozenset({"a", "an", "another", "new"})
_SEVERAL = frozenset({"latest", "newest", "recent", "last", "all", "every"})


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


def split_words(text: str) -> list[str]:
    """Split a name or a text into its lower-case words; identifiers are taken apart."""
    return [part for word in query_words(text) for part in word.parts or (word.surface.lower(),)]


class NameRetriever:
    """Find the rows that a request names, however it spells the name.

    A request is a name if it is one once both are reduced by `name_key`, or if it is a row's
    id. A longer request, up to 500 characters, mentions a name if it contains an identifier that is
    one: a word with a capital inside or with `_`, `-`, `.` or `:` between its parts, as in
    "use create_issue". Ordinary words of a longer request are never taken for names.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        content: The table of the names, and its column of ids.
        keys: Its columns that hold `name_key` of a name: of the bare name, or of the name with its
            category. Without an index on them, each request reads the whole table.
        where: The rows to search among.

    Raises:
        RankingArgumentError: A name of a column that is not plain.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        content: IdColumn,
        keys: Sequence[str],
        where: Filter | None = None,
    ) -> None:
        self._connection = connection
        columns = [identifier(key, argument="keys") for key in keys]
        self._allowed = where.rows if where else None
        asks = where is not None and self._allowed is None
        # The + keeps SQLite from looking up each allowed row separately.
        allowed = f" AND +rowid IN ({where.sql})" if where and asks else ""
        self._sql = " UNION ALL ".join(
            f"SELECT rowid, {content.column}, {column} FROM {content.table} "  # noqa: S608
            f"WHERE {column} IN (SELECT value FROM json_each(?)){allowed}"
            for column in (content.column, *columns)
        )
        self._columns = len(columns)
        self._where_parameters = where.parameters if where and asks else ()

    def retrieve(self, text: str, *, depth: int) -> list[Hit]:
        """Return at most `depth` rows that the request names.

        The score is 1.0 if the request is the name, 0.5 if it mentions it.

        Raises:
            RetrievalError: The table or a column is missing.
        """
        ids: dict[str, float] = {}
        keys: dict[str, float] = {}
        for named, score in _named(text):
            ids.setdefault(encodable(named), score)
            keys.setdefault(name_key(named), score)
        if not any(keys):
            return []
        asked = [list(ids), *[list(keys)] * self._columns]
        try:
            rows = list(self._connection.execute(self._sql, self._parameters(asked)))
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError("name", error) from error
        scores: dict[str, float] = {}
        for row, id_, named in rows:
            if self._allowed is not None and row not in self._allowed:
                continue
            # SQLite also finds ids that differ for Python, such as a number or another case.
            score = max(ids.get(named, 0.0), keys.get(named, 0.0)) or _MENTIONED
            scores[str(id_)] = max(score, scores.get(str(id_), 0.0))
        ranked = sorted((-score, id_) for id_, score in scores.items())
        return [Hit(id=id_, score=-cost) for cost, id_ in ranked[:depth]]

    def _parameters(self, asked: Iterable[Sequence[str]]) -> tuple[Any, ...]:
        return tuple(value for its in asked for value in (json_array(its), *self._where_parameters))


def _named(text: str) -> Iterator[tuple[str, float]]:
    """Yield possible names, the most certain first, with the score of a row of that name."""
    if len(text) <= _MAX_NAME:
        yield text.strip(), _WHOLE
    if len(text) <= _MAX_REQUEST:
        tokens = (match[0].strip("_.:-") for match in re.finditer(_NAMELIKE, text))
        for token in islice(filter(_is_identifier, tokens), _MAX_MENTIONS):
            yield token, _MENTIONED


def _is_identifier(token: str) -> bool:
    if any(a.islower() and b.isupper() for a, b in pairwise(token)):
        return True
    parts = re.split(_JOINT, token)
    # "e-mail" and "T-test" are words, and "10:30" and "3.5" are values.
    return len(parts) > 1 and any(map(str.isalpha, token)) and min(map(len, parts)) > 1


def _by_word() -> dict[str, frozenset[str]]:
    words = {word for verbs in _ACTIONS.values() for word in verbs.split()}
    return {
        word: frozenset(action for action, verbs in _ACTIONS.items() if word in verbs.split())
        for word in words
    }


_BY_WORD = _by_word()


def names_an_action(request: str) -> bool:
    """Return whether a request begins with a verb or a question word that means an action."""
    return bool(_requested_actions(request))


def verb_priors(request: str, names: Iterable[str]) -> Iterator[float]:
    """Yield the factors by which the verbs of some names change their scores.

    A factor is 1 - `VERB_PENALTY` where the request begins with a verb, politeness left out, or
    with a question word, and the name has verbs of other actions only; 1.0 where either has none.
    """
    wanted = _requested_actions(request)
    for told in map(_actions_of_name, names):
        yield 1 - VERB_PENALTY if wanted and told and not wanted & told else 1.0


@lru_cache(maxsize=256)
def _requested_actions(request: str) -> frozenset[str]:
    words = [word.surface.lower() for word in query_words(request)]
    start = next((place for place, word in enumerate(words) if word not in _POLITE), len(words))
    verb, *rest = words[start : start + 4] or [""]
    another = bool(rest) and rest[0] in _ANOTHER
    if verb in _SEEKING:
        return frozenset()
    if verb == "open":
        # A file or a page is opened to be read; what does not exist yet is created.
        return _BY_WORD["create"] if another else frozenset()
    if verb == "get" and rest[:1] == ["rid"]:
        return _BY_WORD["delete"]
    wanted = _SHOWING if verb in _QUESTIONS else _BY_WORD.get(verb, frozenset())
    if verb == "start" and another:
        return wanted | _BY_WORD["create"]
    if wanted & _SHOWING:
        return wanted - {"one"} | {"many"} if _SEVERAL & set(rest) else _SHOWING
    return wanted


@lru_cache(maxsize=1 << 14)
def _actions_of_name(name: str) -> frozenset[str]:
    words = split_words(name)
    told = frozenset(action for word in words for action in _BY_WORD.get(word, ()))
    return told | {"many"} if "one" in told and any(map(_is_plural, words)) else told


def _is_plural(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
