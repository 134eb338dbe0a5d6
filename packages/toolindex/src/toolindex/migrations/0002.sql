-- From version 1 to 2: stamps in columns instead of JSON, searchable vectors for several models at
-- once, and tables for refused texts, the vectors of queries and the usage record.

ALTER TABLE entries ADD COLUMN size INTEGER;
ALTER TABLE entries ADD COLUMN mtime_ns INTEGER;
ALTER TABLE entries ADD COLUMN ctime_ns INTEGER;
ALTER TABLE entries ADD COLUMN inode INTEGER;
UPDATE entries SET
    size = json_extract(stamp, '$.size'),
    mtime_ns = json_extract(stamp, '$.mtime_ns'),
    ctime_ns = json_extract(stamp, '$.ctime_ns'),
    inode = json_extract(stamp, '$.inode')
-- A number of more than 63 bits comes out of JSON inexact: that file is read once more.
WHERE typeof(json_extract(stamp, '$.inode')) = 'integer';
ALTER TABLE entries DROP COLUMN stamp;
CREATE INDEX entries_by_path ON entries (path);

CREATE TABLE embeddings_2 (
    rowid INTEGER PRIMARY KEY,
    text_hash TEXT NOT NULL,
    model_id TEXT NOT NULL,
    stored_at REAL NOT NULL DEFAULT 0,
    vector BLOB NOT NULL,
    UNIQUE (model_id, text_hash)
);
INSERT INTO embeddings_2 (text_hash, model_id, vector)
    SELECT text_hash, model_id, vector FROM embeddings;
DROP TABLE embeddings;
ALTER TABLE embeddings_2 RENAME TO embeddings;

CREATE TABLE refusals (
    model_id TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    reason TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (model_id, text_hash)
) WITHOUT ROWID;

CREATE TABLE models (
    model_id TEXT PRIMARY KEY,
    dimensions INTEGER NOT NULL,
    vec_table TEXT UNIQUE,
    used_at REAL NOT NULL
) WITHOUT ROWID;
INSERT INTO models (model_id, dimensions, used_at)
    SELECT model_id, length(vector) / 4, 0 FROM embeddings GROUP BY model_id;
DROP TABLE IF EXISTS entries_vec;
DELETE FROM meta WHERE key IN ('model_id', 'dimensions', 'generation');
-- As in a new database: what is remembered of one must never be taken for another's.
INSERT INTO meta VALUES ('generation', strftime('%s') * 1048576 + abs(random() % 1048576));

CREATE TABLE query_embeddings (
    model_id TEXT NOT NULL,
    query_hash TEXT NOT NULL,
    used_at REAL NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (model_id, query_hash)
) WITHOUT ROWID;

CREATE TABLE searches (
    rowid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    query TEXT NOT NULL,
    mode TEXT NOT NULL,
    parameters TEXT NOT NULL,
    results TEXT NOT NULL,
    latency_ms REAL NOT NULL,
    degraded TEXT NOT NULL
);
CREATE INDEX searches_by_time ON searches (at);
CREATE TABLE outcomes (
    rowid INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    tool_id TEXT NOT NULL,
    success INTEGER NOT NULL,
    latency_ms REAL,
    search_id TEXT
);
CREATE INDEX outcomes_by_tool ON outcomes (tool_id, success, latency_ms);
CREATE INDEX outcomes_by_time ON outcomes (at);
CREATE INDEX outcomes_by_search ON outcomes (search_id);
