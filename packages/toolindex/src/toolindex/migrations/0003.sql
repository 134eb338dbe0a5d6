-- From version 2 to 3: what is written without spaces in the full-text table, and names as keys.
-- `segments` and `name_key` are functions of the index.

DROP TABLE entries_fts;

-- Not columns with a default: a process of the older version would go on and leave them empty.
CREATE TABLE entries_3 (
    rowid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    category TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    signature TEXT NOT NULL,
    summary TEXT NOT NULL,
    description TEXT NOT NULL,
    parameters TEXT NOT NULL,
    tags TEXT NOT NULL,
    name_words TEXT NOT NULL,
    category_words TEXT NOT NULL,
    parameter_words TEXT NOT NULL,
    tag_words TEXT NOT NULL,
    segments TEXT NOT NULL,
    name_key TEXT NOT NULL,
    qualified_key TEXT NOT NULL,
    file_hash TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    indexed_at REAL NOT NULL,
    size INTEGER,
    mtime_ns INTEGER,
    ctime_ns INTEGER,
    inode INTEGER
);
INSERT INTO entries_3
    SELECT rowid, id, source, category, name, path, signature, summary, description, parameters, tags,
        name_words, category_words, parameter_words, tag_words,
        segments(name, description, parameters, category, tags),
        name_key(name), name_key(category || name),
        file_hash, text_hash, indexed_at, size, mtime_ns, ctime_ns, inode
    FROM entries;
DROP TABLE entries;
ALTER TABLE entries_3 RENAME TO entries;
CREATE INDEX entries_by_path ON entries (path);
CREATE INDEX entries_by_text ON entries (text_hash);
CREATE INDEX entries_by_group ON entries (source, category);
CREATE INDEX entries_by_name_key ON entries (name_key);
CREATE INDEX entries_by_qualified_key ON entries (qualified_key);

CREATE VIRTUAL TABLE entries_fts USING fts5 (
    name_words, description, parameter_words, category_words, tag_words, segments,
    content = 'entries', content_rowid = 'rowid', tokenize = 'porter unicode61'
);

CREATE TRIGGER entries_fts_insert AFTER INSERT ON entries BEGIN
    INSERT INTO entries_fts (rowid, name_words, description, parameter_words, category_words, tag_words, segments)
    VALUES (new.rowid, new.name_words, new.description, new.parameter_words, new.category_words, new.tag_words, new.segments);
END;
CREATE TRIGGER entries_fts_delete AFTER DELETE ON entries BEGIN
    INSERT INTO entries_fts (entries_fts, rowid, name_words, description, parameter_words, category_words, tag_words, segments)
    VALUES ('delete', old.rowid, old.name_words, old.description, old.parameter_words, old.category_words, old.tag_words, old.segments);
END;
CREATE TRIGGER entries_fts_update
AFTER UPDATE OF name_words, description, parameter_words, category_words, tag_words, segments ON entries BEGIN
    INSERT INTO entries_fts (entries_fts, rowid, name_words, description, parameter_words, category_words, tag_words, segments)
    VALUES ('delete', old.rowid, old.name_words, old.description, old.parameter_words, old.category_words, old.tag_words, old.segments);
    INSERT INTO entries_fts (rowid, name_words, description, parameter_words, category_words, tag_words, segments)
    VALUES (new.rowid, new.name_words, new.description, new.parameter_words, new.category_words, new.tag_words, new.segments);
END;

INSERT INTO entries_fts (entries_fts) VALUES ('rebuild');

-- As in a new database: an answer that is remembered of before is stale.
UPDATE meta SET value = strftime('%s') * 1048576 + abs(random() % 1048576) WHERE key = 'generation';
