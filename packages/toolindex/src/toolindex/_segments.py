"""Words of languages that are written without spaces between them, as overlapping bigrams.

FTS5 makes one word of a whole run of such letters, so that nobody finds a part of it. Bigrams need
no dictionary, and find words in Chinese and Japanese about as well as a dictionary does (Nie, Gao,
Zhang & Zhou 2000, "On the use of words and n-grams for Chinese information retrieval").
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Letters, and the marks on them; digits and punctuation end a run. Of Hangul, the particles are
# written with the word that they follow.
_SCRIPTS = (
    # Han and kana, of which Japanese makes one word.
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u3099\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff",
    # Hangul
    "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb",
    # Thai
    "\u0e01-\u0e3a\u0e40-\u0e4e",
    # Lao
    "\u0e81-\u0ece\u0edc-\u0edf",
    # Khmer
    "\u1780-\u17d3\u17d7\u17dc\u17dd",
    # Myanmar
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f",
)
# Left to re to compile with the first text, and to keep: a search has none.
_RUN = "|".join(f"[{script}]+" for script in _SCRIPTS)
_UNSPACED = f"[{''.join(_SCRIPTS)}]"


def segments(texts: Iterable[str]) -> str:
    """Return the bigrams of what is written without spaces, in order, and nothing of the rest.

    >>> segments(["メールを送信する", "send a mail"])
    'メー ール ルを を送 送信 信す する'
    """
    return " ".join(bigram for text in texts if not text.isascii() for bigram in _bigrams(text))


def _bigrams(text: str) -> Iterator[str]:
    text = unicodedata.normalize("NFKC", text)
    # Most text with a dash or an accent has none of it, and to look for runs takes long.
    if not re.search(_UNSPACED, text):
        return
    for run in re.finditer(_RUN, text):
        # FTS5 ends a word at a vowel sign or a tone mark.
        letters = "".join(filter(str.isalnum, run[0]))
        if len(letters) == 1:
            yield letters
        for start in range(len(letters) - 1):
            yield letters[start : start + 2]
