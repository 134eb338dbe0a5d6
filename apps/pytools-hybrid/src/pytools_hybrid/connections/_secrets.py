"""Values that must not be shown: what they are, and how a text is freed of them."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["NAMES_A_SECRET", "Redactor"]

NAMES_A_SECRET = re.compile(
    r"token|secret|passw|pwd|api_?-?key|\bkey\b|_key|-key|auth|credential|cookie|dsn|private", re.I
)
"""What a variable, header or flag is called that holds a secret."""

_SHORTEST = 4
_LONG = 8
_HARMLESS = frozenset(
    {
        *("true", "false", "none", "null", "info", "debug", "warning", "error", "json", "text"),
        *("stdio", "http", "https", "utf-8", "production", "development", "bearer", "basic"),
        *("application/json", "localhost", "127.0.0.1"),
    }
)


class Redactor:
    """Blackens secrets in texts that are to be shown or written.

    Args:
        values: Each secret by the name of the variable or header that holds it.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        shown: dict[str, str] = {}
        written: dict[str, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                shown.setdefault(form, name)
                if NAMES_A_SECRET.search(name) or _looks_random(form):
                    written.setdefault(form, name)
        self._shown = _pattern(shown), shown
        self._written = _pattern(written), written

    def text(self, text: str) -> str:
        """Free a text that is to be shown of all values, also of those that look harmless."""
        return _replaced(text, *self._shown)

    def listing(self, value: object) -> object:
        """Free a value of JSON that is to be written of what looks like a secret.

        A plain word that an environment variable happens to hold stays: descriptions would lose
        words that are nobody's secret.
        """
        if isinstance(value, str):
            return _replaced(value, *self._written)
        if isinstance(value, dict):
            return {
                _replaced(key, *self._written): self.listing(item) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.listing(item) for item in value]
        return value

    @staticmethod
    def of_address(address: str) -> Iterator[tuple[str, str]]:
        """Give the secrets that an address holds: the user's, and the values of its query."""
        try:
            parts = urlsplit(address)
            if parts.password:
                yield "password", parts.password
            if parts.username:
                yield "user", parts.username
            yield from parse_qsl(parts.query)
        except ValueError:  # it is no address; connecting says so
            return


def _forms(value: str) -> Iterator[str]:
    """Give the ways in which a value may stand in a text."""
    for part in {value, value.strip(), *value.split(), *value.splitlines()}:
        if len(part) < _SHORTEST or part.lower() in _HARMLESS or _is_small_number(part):
            continue
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield repr(part)[1:-1]
        yield quote(part, safe="")
        yield quote_plus(part)
        if len(part) >= _LONG:
            yield b64encode(part.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _is_small_number(text: str) -> bool:
    return text.isdecimal() and len(text) < _LONG


def _looks_random(text: str) -> bool:
    return (
        len(text) >= 2 * _LONG
        and not text.startswith(("/", "http://", "https://"))
        and any(char.isdecimal() for char in text)
        and any(char.isalpha() for char in text)
    )


def _pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    # The longest first: one may be a part of another.
    ordered = sorted(set(names), key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _replaced(text: str, pattern: re.Pattern[str] | None, names: Mapping[str, str]) -> str:
    return text if pattern is None else pattern.sub(lambda found: f"[{names[found[0]]}]", text)
