-- The rows of each vector table, instead of sqlite-vec's own record of them, and how many were written.
-- Existing rows are recorded afterwards (`number_rows`), because their tables' names vary.
ALTER TABLE models ADD COLUMN written INTEGER NOT NULL DEFAULT 0;
CREATE TABLE vector_rows (
    vec_table TEXT NOT NULL,
    entry INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (vec_table, entry)
) WITHOUT ROWID;
