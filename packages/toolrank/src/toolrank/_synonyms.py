"""Other names for the same thing: acronyms with their expansions, and the verbs of a session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toolrank._query import STOP_WORDS, query_words

if TYPE_CHECKING:
    from collections.abc import Sequence

# A line has the names of one thing. A name in capitals is a word or a unit in small letters, and is
# recognized in capitals alone; in others, the case does not matter. A plural is recognized too.
_TABLE = """
login, log in, log into, log on, logon, sign in, sign into, signin
logout, log out, log off, sign out, signout
signup, sign up
pr, pull request
mr, merge request
ci, continuous integration
CD, continuous delivery, continuous deployment
db, database
repo, repository
k8s, kubernetes
vm, virtual machine
api, application programming interface
ui, user interface
os, operating system
dns, domain name system
vpn, virtual private network
sso, single sign on
mfa, 2fa, multi factor authentication, two factor authentication
otp, one time password
iam, identity and access management
ai, artificial intelligence
ML, machine learning
llm, large language model
nlp, natural language processing
ocr, optical character recognition
tts, text to speech
stt, speech to text, speech recognition
sms, text message
crm, customer relationship management
hr, human resources
pto, paid time off
kpi, key performance indicator
okr, objectives and key results
sla, service level agreement
faq, frequently asked questions
eta, estimated time of arrival
PO, purchase order
sku, stock keeping unit
fx, foreign exchange
csv, comma separated values
gcal, google calendar
gdrive, google drive
aws, amazon web services
gcp, google cloud platform
"""
_LONGEST = 5
# They may stand within a name, as in "log me in".
_WITHIN = frozenset({"me", "us", "him", "her", "them"})


class Synonym(NamedTuple):
    """A thing that a request names, with its other names.

    Attributes:
        matched: The name in the request, as in the table.
        terms: The lower-case words of the request that name it, without stop words.
        others: Its other names, as lower-case words with spaces between.
    """

    matched: str
    terms: tuple[str, ...]
    others: tuple[str, ...]


def _names() -> dict[tuple[str, ...], tuple[bool, tuple[str, ...]]]:
    table: dict[tuple[str, ...], tuple[bool, tuple[str, ...]]] = {}
    for line in _TABLE.strip().splitlines():
        names = tuple(line.split(", "))
        lower = tuple(name.lower() for name in names)
        for name in names:
            table[tuple(name.lower().split())] = name.isupper(), lower
    return table


_NAMES = _names()
_FIRST_WORDS = frozenset(words[0] for words in _NAMES)
_ANY = rf"(?i)(?<![^\W_])(?:{'|'.join(sorted(_FIRST_WORDS))})"


def synonyms(text: str) -> list[Synonym]:
    """Return the things in a request that have other names, in their order."""
    # Most requests have none, and this check is faster than splitting them into words.
    if text.isascii() and not re.search(_ANY, text):
        return []
    surfaces = [word.surface for word in query_words(text)]
    found: list[Synonym] = []
    place = 0
    while place < len(surfaces):
        length, synonym = _named(surfaces[place : place + _LONGEST])
        if synonym is not None:
            found.append(synonym)
        place += length
    return found


def _named(surfaces: Sequence[str]) -> tuple[int, Synonym | None]:
    """Return how many words the longest name at the beginning has, and what it names."""
    words = [surface.lower() for surface in surfaces]
    if words[0] not in _FIRST_WORDS and words[0].removesuffix("s") not in _FIRST_WORDS:
        return 1, None
    for length in range(len(words), 0, -1):
        whole = (words[0], *(word for word in words[1:length] if word not in _WITHIN))
        singular = (*whole[:-1], whole[-1].removesuffix("s"))
        for name in (whole, singular):
            needs_capitals, names = _NAMES.get(name, (False, ()))
            # "Mr" is no merge request.
            is_written = surfaces[0][:-1].isupper() if needs_capitals else not surfaces[0].istitle()
            if names and (is_written or len(name) > 1 or len(name[0]) > 3):
                terms = tuple(word for word in words[:length] if word not in STOP_WORDS)
                others = tuple(other for other in names if other != " ".join(name))
                return length, Synonym(" ".join(name), terms, others)
    return 1, None
