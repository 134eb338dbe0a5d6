-- Version 1. `entries_vec` is not here: its width is the embedding model's, so it is made
-- when a model is put to use, and it can always be rebuilt from `embeddings`.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The truth about each tool. `words` columns hold identifiers split into words, so that
-- full-text search meets `createPullRequest` where a user writes "create pull request".
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
    file_hash TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    stamp TEXT,                     -- JSON; NULL when the file must be read again to be sure
    indexed_at REAL NOT NULL        -- seconds since 1970, UTC
);
CREATE INDEX entries_by_text ON entries (text_hash);
CREATE INDEX entries_by_group ON entries (source, category);

CREATE VIRTUAL TABLE entries_fts USING fts5 (
    name_words, description, parameter_words, category_words, tag_words,
    content = 'entries', content_rowid = 'rowid', tokenize = 'porter unicode61'
);

CREATE TRIGGER entries_fts_insert AFTER INSERT ON entries BEGIN
    INSERT INTO entries_fts (rowid, name_words, description, parameter_words, category_words, tag_words)
    VALUES (new.rowid, new.name_words, new.description, new.parameter_words, new.category_words, new.tag_words);
END;
CREATE TRIGGER entries_fts_delete AFTER DELETE ON entries BEGIN
    INSERT INTO entries_fts (entries_fts, rowid, name_words, description, parameter_words, category_words, tag_words)
    VALUES ('delete', old.rowid, old.name_words, old.description, old.parameter_words, old.category_words, old.tag_words);
END;
CREATE TRIGGER entries_fts_update
AFTER UPDATE OF name_words, description, parameter_words, category_words, tag_words ON entries BEGIN
    INSERT INTO entries_fts (entries_fts, rowid, name_words, description, parameter_words, category_words, tag_words)
    VALUES ('delete', old.rowid, old.name_words, old.description, old.parameter_words, old.category_words, old.tag_words);
    INSERT INTO entries_fts (rowid, name_words, description, parameter_words, category_words, tag_words)
    VALUES (new.rowid, new.name_words, new.description, new.parameter_words, new.category_words, new.tag_words);
END;

-- Every vector ever paid for, by what was embedded and by whom: it survives renames,
-- moves, deletions and a change of model and back.
CREATE TABLE embeddings (
    text_hash TEXT NOT NULL,
    model_id TEXT NOT NULL,
    vector BLOB NOT NULL,           -- little-endian float32, of length 1
    PRIMARY KEY (model_id, text_hash)
) WITHOUT ROWID;
