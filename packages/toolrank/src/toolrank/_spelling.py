"""The distance of two spellings, and the stems that an unknown word may have."""

from __future__ import annotations

_MIN_STEM = 3
# The suffixes that Porter's stemmer removes, if they are recognizable in a misspelt word, and their
# common misspellings.
_SUFFIXES = tuple(
    """
    e y s es ed er or ers ing ings ign inng ion ions ate ation ations ative ication ications ment
    ments ly al ity able abel ible ance ances ant ants ence ences ent ents ic ics ical ive izer
    ize ized izing ness ful ies
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)


def osa_distance(a: str, b: str, *, limit: int) -> int:
    """Return the edit distance of two words.

    The optimal string alignment distance: insertions, deletions, replacements, and swaps of
    neighbours; no position is edited twice (Damerau 1964; Boytsov 2011).

    Returns:
        The distance, or any number above the limit if the distance is above it.
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, other in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != other))
            if i > 1 and j > 1 and char == b[j - 2] and other == a[i - 2]:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return row[-1]


def letters_of(word: str) -> int:
    """Return the set of a word's letters as bits; two letters may share a bit."""
    bits = 0
    for char in word:
        bits |= 1 << (ord(char) & 31)
    return bits


def stems(word: str) -> tuple[str, ...]:
    """Return the word itself and what may be its stem in an index of stems.

    A misspelt word cannot be stemmed by the rules, because they depend on the wrong letters.
    """
    found = {word: None}
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            found[word.removesuffix(suffix)] = None
    if word.endswith("y"):
        found[word[:-1] + "i"] = None
    return tuple(found)


def forms(stem: str) -> tuple[str, ...]:
    """Return a stem and words that may have it, one of which is found in an index of stems."""
    return (stem, stem + "e", stem + "s", stem + "es", stem[:-1] + "y")
