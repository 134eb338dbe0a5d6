"""Identifiers to words."""

from __future__ import annotations

import re
import unicodedata

# One class letter per character: Upper, Lower (and caseless letters), Digit, or a Separator.
_ASCII_CLASSES = {
    code: "U" if chr(code).isupper() else "L" if chr(code).islower() else "D"
    for code in range(128)
    if chr(code).isalnum()
} | {code: "S" for code in range(128) if not chr(code).isalnum()}

# An acronym gives its last capital to the word that follows: HTTPServer is HTTP + Server.
_WORD = re.compile("U+(?=UL)|U?L+|U+|D+")


def split_identifier(text: str) -> list[str]:
    """Split an identifier, a path part or any text into lower-case words.

    >>> split_identifier("createPullRequest2"), split_identifier("HTTPServer2")
    (['create', 'pull', 'request', '2'], ['http', 'server', '2'])
    """
    if text.isascii():
        classes = text.translate(_ASCII_CLASSES)
    else:
        # Composed, so that a letter and its accents are one character wherever that exists.
        text = unicodedata.normalize("NFC", text)
        classes = "".join(map(_class_of, text))
    return [text[match.start() : match.end()].lower() for match in _WORD.finditer(classes)]


def _class_of(char: str) -> str:
    if char.isupper() or char.istitle():
        return "U"
    if char.isnumeric() and not char.isalpha():
        return "D"
    # Marks (vowel signs, accents without a composed form) belong to the letter before them.
    if char.isalpha() or unicodedata.category(char)[0] == "M":
        return "L"
    return "S"
