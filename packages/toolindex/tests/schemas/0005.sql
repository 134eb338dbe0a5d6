-- Version 5: a new database is made from this file, an older one by the steps in migrations/.
-- The `entries_vec…` tables are not here: each is as wide as its model's vectors, is made when
-- the model is put to use, and can always be rebuilt from `embeddings`.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The truth about each tool. `words` columns hold identifiers split into words, so that
-- full-text search meets `createPullRequest` where a user writes "create pull request". FTS5 makes
-- one word of a whole sentence of Chinese, Japanese or Thai: `segments` holds its pairs of letters.
CREATE TABLE entries (
    rowid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    category TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    signature TEXT NOT NULL,
    summary TEXT NOT NULL,
    description TEXT NOT NULL,
    parameters TEXT NOT NULL,       -- JSON array of objects
    tags TEXT NOT NULL,             -- JSON array of strings
    name_words TEXT NOT NULL,
    category_words TEXT NOT NULL,
    parameter_words TEXT NOT NULL,
    tag_words TEXT NOT NULL,
    segments TEXT NOT NULL,         -- empty where words are written with spaces
    name_key TEXT NOT NULL,         -- the name's letters and digits in lower case
    qualified_key TEXT NOT NULL,    -- those of the category and the name
    file_hash TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    indexed_at REAL NOT NULL,       -- seconds since 1970, UTC
    -- What the file system said of the file; NULL when it must be read again to be sure.
    size INTEGER,
    mtime_ns INTEGER,
    ctime_ns INTEGER,
    inode INTEGER,                  -- unsigned 64 bits, kept as signed
    -- What else the tool is asked for as. It is not from the tool's file, so no sync sets it.
    aliases TEXT NOT NULL DEFAULT '[]',     -- JSON array of strings
    alias_words TEXT NOT NULL DEFAULT ''    -- their words, and pairs of letters as in `segments`
);
CREATE INDEX entries_by_path ON entries (path);
CREATE INDEX entries_by_text ON entries (text_hash);
CREATE INDEX entries_by_group ON entries (source, category);
CREATE INDEX entries_by_name_key ON entries (name_key);
CREATE INDEX entries_by_qualified_key ON entries (qualified_key);
CREATE INDEX entries_with_aliases ON entries (id) WHERE aliases != '[]';

CREATE VIRTUAL TABLE entries_fts USING fts5 (
    name_words, description, parameter_words, category_words, tag_words, segments, alias_words,
    content = 'entries', content_rowid = 'rowid', tokenize = 'porter unicode61'
);

CREATE TRIGGER entries_fts_insert AFTER INSERT ON entries BEGIN
    INSERT INTO entries_fts (rowid, name_words, description, parameter_words, category_words, tag_words, segments, alias_words)
    VALUES (new.rowid, new.name_words, new.description, new.parameter_words, new.category_words, new.tag_words, new.segments, new.alias_words);
END;
CREATE TRIGGER entries_fts_delete AFTER DELETE ON entries BEGIN
    INSERT INTO entries_fts (entries_fts, rowid, name_words, description, parameter_words, category_words, tag_words, segments, alias_words)
    VALUES ('delete', old.rowid, old.name_words, old.description, old.parameter_words, old.category_words, old.tag_words, old.segments, old.alias_words);
END;
CREATE TRIGGER entries_fts_update
AFTER UPDATE OF name_words, description, parameter_words, category_words, tag_words, segments, alias_words ON entries BEGIN
    INSERT INTO entries_fts (entries_fts, rowid, name_words, description, parameter_words, category_words, tag_words, segments, alias_words)
    VALUES ('delete', old.rowid, old.name_words, old.description, old.parameter_words, old.category_words, old.tag_words, old.segments, old.alias_words);
    INSERT INTO entries_fts (rowid, name_words, description, parameter_words, category_words, tag_words, segments, alias_words)
    VALUES (new.rowid, new.name_words, new.description, new.parameter_words, new.category_words, new.tag_words, new.segments, new.alias_words);
END;

-- Every vector ever paid for, by what was embedded and by whom: it survives renames,
-- moves, deletions and a change of model and back.
CREATE TABLE embeddings (
    rowid INTEGER PRIMARY KEY,      -- so that large vectors are appended, whatever their hashes
    text_hash TEXT NOT NULL,
    model_id TEXT NOT NULL,
    stored_at REAL NOT NULL DEFAULT 0,
    vector BLOB NOT NULL,           -- little-endian float32, of length 1
    UNIQUE (model_id, text_hash)
);

-- Texts that a model gives no usable vector for, so that nobody pays for asking again and again:
-- they are left alone for a time that doubles whenever they are refused again.
CREATE TABLE refusals (
    model_id TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    reason TEXT NOT NULL,
    at REAL NOT NULL,               -- the last time, in seconds since 1970, UTC
    times INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (model_id, text_hash)
) WITHOUT ROWID;

-- The models that have been put to use.
CREATE TABLE models (
    model_id TEXT PRIMARY KEY,
    dimensions INTEGER NOT NULL,
    vec_table TEXT UNIQUE,          -- where its vectors are searched; NULL while they are only kept
    used_at REAL NOT NULL
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

-- Counts the states of the index. It starts somewhere else in each database, so that nothing
-- remembered of a database that was removed is ever taken for this one's.
INSERT INTO meta VALUES ('generation', strftime('%s') * 1048576 + abs(random() % 1048576));
