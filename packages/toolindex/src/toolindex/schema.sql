-- Version 2: a new database is made from this file, an older one by the steps in migrations/.
-- All of it can be made again, from the tools' files and from the file beside it (durable.sql).
-- The `entries_vec…` tables are not here: each is as wide as its model's vectors, is made when
-- the model is put to use, and can always be filled again from `embeddings`.

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
    segments TEXT NOT NULL,         -- and words with compatibility characters, in plain ones
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

-- The models that have been put to use.
CREATE TABLE models (
    model_id TEXT PRIMARY KEY,
    dimensions INTEGER NOT NULL,
    vec_table TEXT UNIQUE,          -- where its vectors are searched; NULL while they are only kept
    used_at REAL NOT NULL,
    written INTEGER NOT NULL DEFAULT 0      -- how many rows were added to vec_table since it was made
) WITHOUT ROWID;

-- The rows of each vec_table. The version is new whenever the vector is, so that those who have read
-- the vectors of one state only read the changed ones of the next.
CREATE TABLE vector_rows (
    vec_table TEXT NOT NULL,
    entry INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (vec_table, entry)
) WITHOUT ROWID;

-- Counts the states of the index. It starts somewhere else in each database, so that caches of a
-- deleted database are never valid for this one.
INSERT INTO meta VALUES ('generation', strftime('%s') * 1048576 + abs(random() % 1048576));
