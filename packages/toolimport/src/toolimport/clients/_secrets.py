"""Secrets: finding them in configurations, and redacting them in texts."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

_BETWEEN = re.compile(r"[\s,](?=[^\s,]*://)")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*):(?:\d*|\$\{\w+\})")
# As in `/@scope/name` and `?to=a@x.org`.
_NO_USER = re.compile(r"/@|[?&][\w.-]+=[^?&#/]*@")
_VERSIONED = re.compile(r"(?:git|hg|svn|bzr)\+\w+$")
NAMES_A_SECRET = re.compile(
    r"token|secret|passw|pwd|api_?-?key|\bkey\b|_key|-key|auth(?!ors?(?:[_-]|\b))|credential|cookie"
    r"|dsn|private",
    re.I,
)
"""The names of variables, headers and flags with secrets."""
# Exceptions, which are often ordinary choices: AUTH_METHOD, PRIVATE_REPOS, TOKEN_KIND.
_CHOOSES = re.compile(r"auth|private|method|mode|type|kind|name|repos", re.I)
# Keywords of a schema whose values a server compares literally.
_EXACT = frozenset({"required", "enum", "const", "type", "$ref", "pattern"})
_FLAG = re.compile(r"--?[\w-]+")
# `--api-key=…`, `API_KEY=…`, `Authorization: …`, also after `--header=`.
_NAMED = re.compile(r"(?:^|(?<==))(-{0,2}[\w.-]+)(?:=|:\s*)(?=\S)")
# Parts of a server's entry that may contain a key under any name.
_OF_VALUES = frozenset({"env", "headers"})
_ODD = re.compile(r"[/?#@\[\]]")
_WORD = re.compile(r"[\w-]+")
_SHORTEST = 4
_LONG = 8
_HARMLESS = frozenset(
    {
        *("true", "false", "none", "null", "info", "debug", "warning", "error", "json", "text"),
        *("stdio", "http", "https", "utf-8", "production", "development", "bearer", "basic"),
        *("application/json", "localhost", "127.0.0.1"),
    }
)


def _user_length(scheme: str, rest: str) -> int:
    """Return the length of user and password; if it is uncertain, err on the long side."""
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    behind = rest[len(host) :]
    may_be_secret = "@" in _NO_USER.sub("", behind) and not _VERSIONED.search(scheme)
    if "@" in host:
        user = host.rpartition("@")[0]
        return rest.rindex("@") if may_be_secret and ":" in user else len(user)
    is_port = _PORT.fullmatch(host) and not may_be_secret
    return 0 if is_port or ":" not in host or "@" not in behind else rest.rindex("@")


class Redactor:
    """Redacts secrets in texts that are to be shown or written.

    The values are pairs of the name of a variable, header or flag, and its secret.
    """

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        shown: dict[str, str] = {}
        written: dict[str, str] = {}
        certain: dict[str, str] = {}
        for name, value in values:
            for form in _forms(value):
                shown.setdefault(form, name)
                if looks_random(form):
                    certain.setdefault(form, name)
                is_word = form.isalpha() and len(form) < 2 * _LONG
                is_choice = is_word and _CHOOSES.search(name)
                if looks_random(form) or (NAMES_A_SECRET.search(name) and not is_choice):
                    written.setdefault(form, name)
        self._shown, self._written, self._certain = map(_replacing, (shown, written, certain))

    def text(self, text: str) -> str:
        """Redact all values in a text that is to be shown, even those that look harmless."""
        return self._shown(text)

    def listing(self, value: JsonValue, *, is_exact: bool = False) -> JsonValue:
        """Redact what looks like a secret in a JSON value that is to be written.

        A plain word stays, even if it is the value of an environment variable. Otherwise
        descriptions would lose ordinary words, and names and choices would not be what the server
        expects.
        """
        if isinstance(value, str):
            return self._certain(value) if is_exact else self._written(value)
        if isinstance(value, dict):
            return {
                self._certain(key): self.listing(
                    item, is_exact=key in _EXACT and not isinstance(item, dict)
                )
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.listing(item, is_exact=is_exact) for item in value]
        return value

    @staticmethod
    def of_address(address: str) -> Iterator[tuple[str, str]]:
        """Yield the secrets in addresses: users and passwords, and those in paths and queries."""
        start = 0
        for found in (*_BETWEEN.finditer(address), None):
            end = len(address) if found is None else found.end()
            scheme, _, rest = address[start:end].partition("://")
            start, length = end, _user_length(scheme, rest)
            user, _, password = rest[:length].partition(":")
            for name, value in (("password", password), ("user", user)):
                # Errors about an odd password may quote parts of it.
                forms = (value, unquote(value), *_ODD.split(value))
                yield from ((name, form) for form in dict.fromkeys(forms) if form)
            try:
                parts = urlsplit(f"//{rest[length:].lstrip('@')}")
                yield from parse_qsl(parts.query)
                for part in parts.path.split("/"):
                    if looks_random(part):
                        yield "path", unquote(part)
            except ValueError:  # not an address, which connecting will report
                continue


def secret_parts(arguments: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the index of each argument with a secret, where that begins in it, and its name."""
    flag = ""
    for place, text in enumerate(arguments):
        is_flag = _FLAG.fullmatch(text) is not None
        named = [it for it in _NAMED.finditer(text) if NAMES_A_SECRET.search(it[1])]
        if named:
            yield place, named[0].end(), named[0][1].lstrip("-")
        elif flag and not is_flag:
            yield place, 0, flag
        elif not is_flag and _is_key(text):
            yield place, 0, "argument"
        flag = text.lstrip("-") if is_flag and NAMES_A_SECRET.search(text) else ""


def secrets_in(content: object, text: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and values of secrets in a configuration, and of keys in its comments.

    References to variables are not secrets.
    """
    words = (("key", it) for it in _WORD.findall(text) if _is_key(it))
    yield from ((name, it) for name, it in (*_held(content), *words) if "${" not in it)


def _held(value: object, name: str = "", *, is_secret: bool = False) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _held(
                item, key, is_secret=name in _OF_VALUES or NAMES_A_SECRET.search(key) is not None
            )
    elif isinstance(value, list):
        items = cast("list[object]", value)
        texts = [it for it in items if isinstance(it, str)]
        yield from ((flag, texts[place][start:]) for place, start, flag in secret_parts(texts))
        for item in items:
            yield from _held(item, name, is_secret=is_secret)
    elif isinstance(value, str):
        yield from Redactor.of_address(value) if "://" in value else ()
        yield from [(name, value)] if is_secret else ()


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which a value may appear in a text."""
    for part in {value, value.strip(), *value.split(), *value.splitlines()}:
        is_small_number = part.isdecimal() and len(part) < _LONG
        if len(part) < _SHORTEST or part.lower() in _HARMLESS or is_small_number:
            continue
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield repr(part)[1:-1]
        yield quote(part, safe="", errors="surrogatepass")
        yield quote_plus(part, errors="surrogatepass")
        if len(part) >= _LONG:
            yield b64encode(part.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def looks_random(text: str) -> bool:
    """Return whether a text looks like a key rather than a word or a path."""
    return (
        len(text) >= 2 * _LONG
        and not text.startswith(("/", "http://", "https://"))
        and any(char.isdecimal() for char in text)
        and any(char.isalpha() for char in text)
    )


def _is_key(text: str) -> bool:
    """Return whether a text looks like a key such as `ghp_…` rather than the name of a program."""
    return _WORD.fullmatch(text) is not None and any(map(looks_random, re.split("[-_]", text)))


def _replacing(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return what replaces some values in a text by their names."""
    # The longest first, because one may be part of another.
    ordered = sorted(names, key=lambda form: (-len(form), form))
    pattern = re.compile("|".join(map(re.escape, ordered)) or r"\Z\A.")
    return lambda text: pattern.sub(lambda found: f"[{names[found[0]]}]", text)
