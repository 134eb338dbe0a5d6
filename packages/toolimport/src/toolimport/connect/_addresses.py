"""Finding users and passwords in addresses in a text, even in those that parsers reject."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BETWEEN = re.compile(r"[\s,](?=[^\s,]*://)")
_HOST = re.compile(r"[^/?#]*")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*):(?:\d*|\$\{\w+\})")
# As in `/@scope/name` and `?to=a@x.org`.
_NO_USER = re.compile(r"/@|[?&][\w.-]+=[^?&#/]*@")
_VERSIONED = re.compile(r"(?:git|hg|svn|bzr)\+\w+$")


@dataclass(frozen=True, slots=True)
class Address:
    """A part of a text with one address; its fields joined are the whole part.

    Attributes:
        before: Everything before the user, including the scheme.
        user: The user's name; empty if there is none.
        password: The password as written; empty if there is none.
        after: The host and the rest, including the `@` if there is a user.
    """

    before: str
    user: str = ""
    password: str = ""
    after: str = ""


def addresses(text: str) -> Iterator[Address]:
    """Split a text so that each part has at most one address."""
    start = 0
    for found in (*_BETWEEN.finditer(text), None):
        end = len(text) if found is None else found.end()
        scheme, mark, rest = text[start:end].partition("://")
        length = _user_length(scheme, rest)
        user, _, password = rest[:length].partition(":")
        yield Address(scheme + mark, user, password, rest[length:])
        start = end


def _user_length(scheme: str, rest: str) -> int:
    """Return the length of user and password; if it is uncertain, err on the long side."""
    found = _HOST.match(rest)
    host = found[0] if found else ""
    behind = rest[len(host) :]
    may_be_secret = "@" in _NO_USER.sub("", behind) and not _VERSIONED.search(scheme)
    if "@" in host:
        user = host.rpartition("@")[0]
        return rest.rindex("@") if may_be_secret and ":" in user else len(user)
    if ":" not in host or "@" not in behind:
        return 0
    if _PORT.fullmatch(host) and not may_be_secret:
        return 0
    return rest.rindex("@")
