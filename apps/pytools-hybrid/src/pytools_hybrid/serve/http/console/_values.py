"""Values for the templates: links to searches, highlighted words, bars."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup, escape

from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")
_SLIP = "→"
_SHORT = 4
_LONGEST_LINK = 1_200
_LONGEST_ENDING = 3


def query_links(queries: Iterable[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """Return each query with a link to its search, which is empty if it would be too long."""
    links = [(query, "/?" + urlencode({"q": query}, errors="replace"), n) for query, n in queries]
    return [(query, link if len(link) <= _LONGEST_LINK else "", n) for query, link, n in links]


def highlighted(text: str, terms: Iterable[str]) -> Markup:
    """Return a text as HTML that marks the words of a request, in any inflected form.

    Args:
        text: The text.
        terms: The terms of the request that the tool contains, as returned by `ToolSearch.terms`.
    """
    wanted = {form.lower() for term in terms for form in term.split(_SLIP)}
    parts: list[Markup] = []
    end = 0
    text = readable(text)
    for word in _WORD.finditer(text):
        if any(_is_form_of(word[0].lower(), each) for each in wanted):
            parts += [escape(text[end : word.start()]), Markup("<mark>%s</mark>") % word[0]]
            end = word.end()
    return Markup("").join([*parts, escape(text[end:])])


def stacked(shares: Iterable[float]) -> list[tuple[float, float]]:
    """Return the start and the length of several shares in a bar of length 100."""
    lengths = [round(100 * share, 2) for share in shares]
    return [(round(sum(lengths[:at]), 2), length) for at, length in enumerate(lengths)]


def _is_form_of(word: str, term: str) -> bool:
    """Return whether a word and a term differ only in their endings, like 'merging' and 'merge'."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, term, strict=False)))
    shorter, longer = sorted([len(word), len(term)])
    if longer - shorter > _LONGEST_ENDING:
        return False
    return same == shorter if shorter <= _SHORT else same >= shorter - 1
