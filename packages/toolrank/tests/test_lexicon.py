"""Words stored outside SQLite are ranked like those of an FTS5 table."""

import math
import re
from array import array
from collections import Counter
from contextlib import closing

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import BM25Retriever, FullTextTable, Query
from toolrank._fuzzy import FuzzyRetriever
from toolrank._postings import Posting
from toolrank.errors import RetrievalError
from toolrank.testing import check_retriever

K1, B = 1.2, 0.75
WORDS = ["merge", "pdf", "files", "send", "mail", "issue", "create", "list"]
ROWS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=30)
REQUESTS = st.lists(
    st.sampled_from([*WORDS, "isue", "creat", '"send mail"', "zzz"]), min_size=1, max_size=4
).map(" ".join)


class MemoryLexicon:
    """The words of texts in memory, without stemming; row 1 is the first text."""

    weights = ()

    def __init__(self, texts):
        self.source = self
        self.rows = {row: words_of(text) for row, text in enumerate(texts, start=1)}
        self.mean = sum(map(len, self.rows.values())) / len(self.rows)

    def size(self):
        return len(self.rows)

    def posting(self, term, *, up_to=None):
        counts = {row: occurrences(words_of(term), words) for row, words in self.rows.items()}
        held = {row: count for row, count in counts.items() if count}
        if up_to is not None and len(held) > up_to:
            return Posting(rows=array("q"), scores=array("d"), documents=len(held))
        rarity = (len(self.rows) - len(held) + 0.5) / (len(held) + 0.5)
        idf = max(math.log(rarity), 1e-6)
        scores = (
            idf * n * (K1 + 1) / (n + K1 * (1 - B + B * len(self.rows[row]) / self.mean))
            for row, n in held.items()
        )
        return Posting(rows=array("q", held), scores=array("d", scores), documents=len(held))

    def vocabulary(self):
        return Counter(word for words in self.rows.values() for word in {*words})

    def spellings(self, term):
        return [term]

    def ids(self, rows):
        return {row: str(row) for row in rows}

    def rows_of(self, ids):
        return {id_: int(id_) for id_ in ids if id_.isdecimal() and int(id_) in self.rows}

    def allowed(self, where):
        raise NotImplementedError(where.sql)


class BrokenLexicon(MemoryLexicon):
    def posting(self, term, *, up_to=None):
        raise ConnectionError("the server is gone")


def words_of(text):
    return re.findall(r"\w+", text.lower())


def occurrences(phrase, words):
    starts = range(len(words) - len(phrase) + 1)
    return sum(words[start : start + len(phrase)] == phrase for start in starts) if phrase else 0


def both(texts, connection):
    connection.execute("CREATE VIRTUAL TABLE docs USING fts5 (text, tokenize = 'unicode61')")
    connection.executemany("INSERT INTO docs VALUES (?)", [(text,) for text in texts])
    return MemoryLexicon(texts), FullTextTable(connection, table="docs")


@given(texts=ROWS, text=REQUESTS)
def test_another_lexicon_returns_the_same_hits_and_scores(texts, text):
    with closing(apsw.Connection(":memory:")) as connection:
        for retriever in (
            lambda it: BM25Retriever(it, correction_weight=0.7, damping=0.75),
            FuzzyRetriever,
        ):
            connection.execute("DROP TABLE IF EXISTS docs")
            ours, theirs = (
                retriever(lexicon).retrieve(Query(text=text), depth=99)
                for lexicon in both(texts, connection)
            )
            scores = {hit.id: hit.score for hit in theirs}
            assert {hit.id: hit.score for hit in ours} == pytest.approx(scores, rel=1e-9)


def test_retrievers_over_another_lexicon_keep_the_contract():
    lexicon = MemoryLexicon(["create an issue", "list issues", "merge files", "create files"])
    queries = [Query(text="create"), Query(text="files issue")]
    check_retriever(BM25Retriever(lexicon, correction_weight=0.7), queries)
    check_retriever(FuzzyRetriever(lexicon), queries)


def test_a_lexicon_that_cannot_be_read_is_a_retrieval_error_with_its_reason():
    retriever = BM25Retriever(BrokenLexicon(["merge files"]), name="words")
    with pytest.raises(RetrievalError, match="'words' failed: the server is gone"):
        retriever.retrieve(Query(text="merge"), depth=1)
