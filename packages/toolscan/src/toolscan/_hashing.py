"""The text that is embedded for a tool, words of identifiers, and hashes that show changes."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._layout import ToolId

# One class letter per character: Upper, Lower (and caseless letters), Digit, or a Separator; "s",
# which ends plurals, has its own.
_ASCII_CLASSES = (
    {
        code: "U" if chr(code).isupper() else "L" if chr(code).islower() else "D"
        for code in range(128)
        if chr(code).isalnum()
    }
    | {code: "S" for code in range(128) if not chr(code).isalnum()}
    | {ord("s"): "s"}
)

# The last capital of an acronym belongs to the next word, HTTPServer is HTTP + Server, but URLs is
# one word.
_WORD = re.compile("U{2,}s(?![Ls])|U+(?=U[Ls])|U?[Ls]+|U+|D+")
_REMEMBERED = 1 << 12
TEXT_VERSION = 2
"""The version of `embedding_text`'s template; with a new version, every text hash differs."""


def split_identifier(text: str) -> list[str]:
    """Split an identifier, a path part or any text into lower-case words.

    >>> split_identifier("createPullRequest2"), split_identifier("HTTPServer2")
    (['create', 'pull', 'request', '2'], ['http', 'server', '2'])
    >>> split_identifier("listURLs"), split_identifier("ＡＰＩ")
    (['list', 'urls'], ['api'])
    """
    if text.isascii():
        classes = text.translate(_ASCII_CLASSES)
    else:
        # Letters with their accents become one character, and compatibility characters plain ones.
        text = unicodedata.normalize("NFKC", text)
        classes = "".join(map(_class_of, text))
    return [text[match.start() : match.end()].lower() for match in _WORD.finditer(classes)]


def _class_of(char: str) -> str:
    if char == "s":
        return "s"
    if char.isupper() or char.istitle():
        return "U"
    if char.isnumeric() and not char.isalpha():
        return "D"
    # A mark (vowel sign, accent without a composed form) belongs to the letter before it.
    if char.isalpha() or unicodedata.category(char)[0] == "M":
        return "L"
    return "S"


def embedding_text(
    id: ToolId,  # noqa: A002
    description: str,
    parameter_names: Iterable[str],
    *,
    tags: Iterable[str] = (),
) -> str:
    """Return the text that is embedded for a tool.

    It depends only on what an index stores, so that a tool can be embedded later without its file.
    Compatibility characters are plain ones in it (NFKC), as in requests.
    Tags that the description mentions are not repeated. The names of parameters come last, where a
    model that truncates long texts, or weights their beginnings more, loses the least.
    """
    name, category = _words(id.name), _words(id.category)
    said = description.casefold()
    labels = ", ".join(tag for tag in tags if tag.casefold() not in said)
    parameters = ", ".join(map(_words, parameter_names))
    text = " ".join(filter(None, (f"{name} ({category}): {description}", labels, parameters)))
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


# A tree has few words for its categories and parameters.
@lru_cache(_REMEMBERED)
def _words(identifier: str) -> str:
    return " ".join(split_identifier(identifier)) or identifier


def hash_bytes(data: bytes) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    # Imported here because OpenSSL takes a tenth of this package's import time.
    from hashlib import sha256

    return sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """Return the SHA-256 of an embedded text and the template's version.

    Each part is preceded by its length, so that different pairs never hash the same bytes.
    """
    from hashlib import sha256

    parts = (str(TEXT_VERSION).encode(), text.encode())
    return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()
