"""Addresses of databases, and hiding their passwords."""

from __future__ import annotations

import re

_SECRETS = "password|sslpassword|passfile|oauth_client_secret|scram_client_key|scram_server_key"
_IN_QUERY = re.compile(rf"([?&])(?:{_SECRETS})=[^&]*", re.I)
_IN_WORDS = re.compile(rf"\b(?:{_SECRETS})\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)\s*", re.I)
_USER = re.compile(r"^([\w+.-]+://)([^:/?@]*):.*@", re.S)


def redacted(address: str) -> str:
    """Return an address without its password.

    >>> redacted("postgresql://me:secret@db.example.com/tools?sslmode=verify-full")
    'postgresql://me@db.example.com/tools?sslmode=verify-full'
    """
    if "://" not in address:
        return _IN_WORDS.sub("", address).strip()
    start, mark, rest = address.partition("?")
    # If a password contains an unescaped question mark, the rest of it must not be shown.
    if "@" in rest and "@" not in start:
        start, mark, rest = address, "", ""
    shown = _IN_QUERY.sub(r"\1", _USER.sub(r"\1\2@", start) + mark + rest)
    return shown.replace("?&", "?").replace("&&", "&").rstrip("?&")
