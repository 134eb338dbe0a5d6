-- Version 1 of the file beside the index. It contains what cannot be rebuilt from the tools' files:
-- vectors that were paid for, and the usage record.

-- Every vector ever paid for, by text and model. It survives renames, moves, deletions, and a change
-- of model and back.
CREATE TABLE embeddings (
    rowid INTEGER PRIMARY KEY,      -- so that large vectors are appended, whatever their hashes
    text_hash TEXT NOT NULL,
    model_id TEXT NOT NULL,
    stored_at REAL NOT NULL DEFAULT 0,
    vector BLOB NOT NULL,           -- little-endian float32, of length 1
    UNIQUE (model_id, text_hash)
);

-- Texts for which a model returns no usable vector. They are retried after a delay that doubles with
-- each refusal, so that repeated requests cost little.
CREATE TABLE refusals (
    model_id TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    reason TEXT NOT NULL,
    at REAL NOT NULL,               -- the last time, in seconds since 1970, UTC
    times INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (model_id, text_hash)
) WITHOUT ROWID;

-- Vectors of queries, so that a question asked again costs no request. A query is kept as a hash.
CREATE TABLE query_embeddings (
    model_id TEXT NOT NULL,
    query_hash TEXT NOT NULL,
    used_at REAL NOT NULL,
    vector BLOB NOT NULL,           -- as in `embeddings`
    PRIMARY KEY (model_id, query_hash)
) WITHOUT ROWID;

-- The usage record. It never leaves the machine, and nothing in it is needed for a search.
CREATE TABLE searches (
    rowid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,               -- seconds since 1970, UTC
    query TEXT NOT NULL,
    mode TEXT NOT NULL,
    parameters TEXT NOT NULL,       -- JSON object: limit, filters, …
    results TEXT NOT NULL,          -- JSON array of ids, best first
    latency_ms REAL NOT NULL,
    degraded TEXT NOT NULL          -- JSON array: what was lost, in words
);
CREATE INDEX searches_by_time ON searches (at);
CREATE TABLE outcomes (
    rowid INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    tool_id TEXT NOT NULL,
    success INTEGER NOT NULL,       -- 0 or 1
    latency_ms REAL,
    search_id TEXT                  -- the search that the tool was taken from, if it is known
);
CREATE INDEX outcomes_by_tool ON outcomes (tool_id, success, latency_ms);
CREATE INDEX outcomes_by_time ON outcomes (at);
CREATE INDEX outcomes_by_search ON outcomes (search_id);

-- Change counters: `outcomes` moves on with every change of outcomes; `vectors` with every change of
-- vectors, and the index has the same number.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counters VALUES ('outcomes', strftime('%s') * 1048576 + abs(random() % 1048576));
