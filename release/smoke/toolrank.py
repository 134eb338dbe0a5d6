"""The installed toolrank, which needs nothing, ranks the rows of a table."""

import sqlite3

from toolrank import BM25Retriever, Channel, HybridRanker, Query, linear_fusion

db = sqlite3.connect(":memory:")
db.execute("CREATE VIRTUAL TABLE dishes USING fts5 (title)")
db.executemany("INSERT INTO dishes VALUES (?)", [("Tomato soup",), ("Apple cake",)])
ranker = HybridRanker([Channel(BM25Retriever(db, table="dishes"))], fuse=linear_fusion)
(hit, *_) = ranker.rank(Query(text="a tomato soup"), limit=1)
assert int(hit.id) == 1, hit
print(f"row {hit.id} found with a score of {hit.score:.2f}")
