"""A retriever that keeps every promise, and others that break one each."""

import math
from dataclasses import replace

from toolrank import Hit

SHELF = {
    "b": "merge several pdf files",
    "a": "merge two files",
    "d": "send a mail",
    "c": "send a message",
    "e": "split files by files of files",
}


class Good:
    """Counts the words of a text that a row holds."""

    name = "good"

    def score(self, words, row):
        return float(sum(row.split().count(word) for word in words))

    def retrieve(self, query, *, depth):
        words = set(query.text.split())
        hits = [Hit(id=id_, score=self.score(words, row)) for id_, row in SHELF.items()]
        found = [hit for hit in hits if hit.score > 0]
        return sorted(found, key=lambda hit: (-hit.score, hit.id))[:depth]


class Nameless(Good):
    name = ""


class FindsNothing(Good):
    def retrieve(self, query, *, depth):
        return []


class GivesTooMany(Good):
    def retrieve(self, query, *, depth):
        return super().retrieve(query, depth=depth + 1)


class WorstFirst(Good):
    def retrieve(self, query, *, depth):
        return super().retrieve(query, depth=depth)[::-1]


class TiesByChance(Good):
    def retrieve(self, query, *, depth):
        found = super().retrieve(query, depth=99)
        return sorted(found, key=lambda hit: (hit.score, hit.id), reverse=True)[:depth]


class RepeatsOne(Good):
    def retrieve(self, query, *, depth):
        found = super().retrieve(query, depth=depth)
        return [found[0], *found][:depth] if found else []


class NotANumber(Good):
    def retrieve(self, query, *, depth):
        return [replace(hit, score=math.nan) for hit in super().retrieve(query, depth=depth)]


class Infinite(Good):
    def score(self, words, row):
        return super().score(words, row) and math.inf


class Forgets(Good):
    asked = 0

    def retrieve(self, query, *, depth):
        self.asked += 1
        return super().retrieve(query, depth=depth)[: 99 if self.asked % 2 else 1]


class CutsBeforeItSorts(Good):
    def retrieve(self, query, *, depth):
        wanted = list(SHELF)[:depth]
        return [hit for hit in super().retrieve(query, depth=99) if hit.id in wanted]


class OtherHitsOfOneScore(Good):
    def retrieve(self, query, *, depth):
        found = super().retrieve(query, depth=depth)
        if depth < 5:
            found = [replace(hit, id=f"{hit.id}{depth}") for hit in found]
        return found


class LooksAtParts(Good):
    def retrieve(self, query, *, depth):
        return super().retrieve(query, depth=depth)[1 if query.parts else 0 :]


class AnswersNothing(Good):
    def retrieve(self, query, *, depth):
        return super().retrieve(query, depth=depth) or [Hit(id="a", score=0.0)]


class ChokesOnSurrogates(Good):
    def retrieve(self, query, *, depth):
        query.text.encode()
        return super().retrieve(query, depth=depth)


class NeedsAVector(Good):
    def retrieve(self, query, *, depth):
        len(query.vector)
        return super().retrieve(query, depth=depth)


BROKEN = {
    Nameless: "name is empty",
    FindsNothing: "none of the queries has an answer",
    GivesTooMany: "at most as many hits as asked for",
    WorstFirst: "hits come best first",
    TiesByChance: "equal scores come in the order of ids",
    RepeatsOne: "each id comes once",
    NotANumber: "a score is not finite",
    Infinite: "a score is not finite",
    Forgets: "the same query has the same answer again",
    CutsBeforeItSorts: "a shorter answer is the beginning of a longer one",
    OtherHitsOfOneScore: "a shorter answer is the beginning of a longer one",
    LooksAtParts: "the parts of a query are not the retriever's to look at",
    AnswersNothing: "a query with neither text nor vector has an empty list",
    ChokesOnSurrogates: "no query raises.*UnicodeEncodeError",
    NeedsAVector: "no query raises.*without a vector.*TypeError",
}
"""Each with the promise that it breaks, as a pattern."""
