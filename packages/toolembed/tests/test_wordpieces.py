"""Word pieces: how a text is tokenized for the static vectors and the transformer."""

import pytest
from toolembed._wordpieces import UNKNOWN, WordPieces

PIECES = WordPieces()
NAMES = list(PIECES)


def spelt(text):
    return [NAMES[number] for number in PIECES.numbers(text)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (" \n\t", []),
        ("Merge two PDFs!", ["merge", "two", "pdf", "##s", "!"]),
        ("create_issue", ["create", "_", "issue"]),
        ("Zürich, naïve", ["zurich", ",", "naive"]),
        ("unaffable", ["una", "##ffa", "##ble"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("zero\u200bwidth", ["zero", "##wi", "##dt", "##h"]),
        ("🛠", ["[UNK]"]),
        ("x" * 101, ["[UNK]"]),
        ("half a pair \ud83d", ["half", "a", "pair"]),
    ],
)
def test_a_text_is_divided_into_the_longest_known_pieces(text, pieces):
    assert spelt(text) == pieces


def test_characters_outside_the_vocabulary_have_distinct_ids():
    mail, send = "邮", "发"
    assert mail not in PIECES
    assert send not in PIECES
    assert PIECES.numbers(mail) == PIECES.numbers(mail)
    assert PIECES.numbers(mail) != PIECES.numbers(send)
    assert UNKNOWN not in PIECES.numbers(mail + send)
