"""The action that a request asks for, against that of a name: "open an issue" is no `get_issue`."""

from __future__ import annotations

from functools import lru_cache

from toolrank._query import query_words

VERB_PENALTY = 0.1
"""The share of its score that a hit loses whose name has another action than the request."""

# English verbs that requests begin with and names are made of, by action. Whether one or many of a
# thing are shown is distinguished where a request says so.
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
# They may ask for a tool, or for a tool that finds something.
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


def _by_word() -> dict[str, frozenset[str]]:
    words = {word for verbs in _ACTIONS.values() for word in verbs.split()}
    return {
        word: frozenset(action for action, verbs in _ACTIONS.items() if word in verbs.split())
        for word in words
    }


_BY_WORD = _by_word()


def names_an_action(request: str) -> bool:
    """Return whether a request begins with a verb or a question word that means an action."""
    return bool(_wanted(request))


def verb_prior(request: str, name: str) -> float:
    """Return the factor by which a name's verb changes a score.

    It is 1 - `VERB_PENALTY` where the request begins with a verb, politeness left out, or with a
    question word, and the name has verbs of other actions only; 1.0 where either has no verb.
    """
    wanted, told = _wanted(request), _told(name)
    return 1 - VERB_PENALTY if wanted and told and not wanted & told else 1.0


@lru_cache(maxsize=256)
def _wanted(request: str) -> frozenset[str]:
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
def _told(name: str) -> frozenset[str]:
    words = [part for word in query_words(name) for part in word.parts or (word.surface.lower(),)]
    told = frozenset(action for word in words for action in _BY_WORD.get(word, ()))
    return told | {"many"} if "one" in told and any(map(_is_plural, words)) else told


def _is_plural(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
