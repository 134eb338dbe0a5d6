"""Texts to numbers of word pieces, as BERT models use them (Devlin et al. 2019)."""

from __future__ import annotations

import re
import unicodedata
import zlib
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN = 100
"""The number for characters outside the vocabulary."""

_VOCABULARY = Path(__file__).with_name("wordpieces.txt")
_LONGEST_WORD = 100
# About as many different words as in a large tree; about 200 bytes each.
_REMEMBERED = 1 << 14
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Where the characters of East Asian scripts begin.
_FAR = "\u2e00"
# An ideograph, a word, or a mark.
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+|[^\w\s]|_")
# Accents, and invisible characters.
_DROPPED = frozenset({"Mn", "Cf", "Cs"})


@cache
def word_pieces() -> WordPieces:
    """Return the vocabulary that all models here share, read once."""
    return WordPieces()


class WordPieces:
    """The vocabulary of BERT's uncased models: words, and pieces that begin or continue one."""

    def __init__(self) -> None:
        text = _VOCABULARY.read_text("utf-8")
        self._numbers = {piece: number for number, piece in enumerate(text.split("\n")[:-1])}
        self._characters = [
            number for piece, number in self._numbers.items() if len(piece) == 1 and piece >= _FAR
        ]
        self._pieces = lru_cache(_REMEMBERED)(self._split)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __contains__(self, piece: object) -> bool:
        return piece in self._numbers

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces; an empty list if it has no words."""
        text = text.lower()
        if not text.isascii():
            decomposed = unicodedata.normalize("NFD", text)
            text = "".join(c for c in decomposed if unicodedata.category(c) not in _DROPPED)
        return [number for word in _WORD.findall(text) for number in self._pieces(word)]

    def _split(self, word: str) -> tuple[int, ...]:
        """Repeatedly take the longest piece that the rest of a word begins with."""
        if len(word) > _LONGEST_WORD:
            return (self._instead(word),)
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                number = self._numbers.get(piece)
                if number is not None:
                    break
            else:
                return (self._instead(word),)
            found.append(number)
            start = end
        return tuple(found)

    def _instead(self, word: str) -> int:
        """Return a substitute character for a word that is not in the vocabulary.

        It is always the same for a word, so texts that share the word are similar. With one number
        for all such words, any two texts in Chinese would be similar.
        """
        if word.isascii() or not word.isalpha():
            return UNKNOWN
        return self._characters[zlib.crc32(word.encode("utf-8", "replace")) % len(self._characters)]
