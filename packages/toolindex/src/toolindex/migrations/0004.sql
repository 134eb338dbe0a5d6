-- From version 3 to 4: a searched column of aliases.

ALTER TABLE entries ADD COLUMN aliases TEXT NOT NULL DEFAULT '[]';
ALTER TABLE entries ADD COLUMN alias_words TEXT NOT NULL DEFAULT '';
CREATE INDEX entries_with_aliases ON entries (id) WHERE aliases != '[]';

DROP TRIGGER entries_fts_insert;
DROP TRIGGER entries_fts_delete;
DROP TRIGGER entries_fts_update;
DROP TABLE entries_fts;

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

INSERT INTO entries_fts (entries_fts) VALUES ('rebuild');

-- As in a new database: an answer that is remembered of before is stale.
UPDATE meta SET value = strftime('%s') * 1048576 + abs(random() % 1048576) WHERE key = 'generation';
