-- Hosts without a copy used to read the index as pages, and pgvector to search vectors of large trees.
-- Nothing uses these tables any more, so their space is freed. Deleting from `near` drops its tables.
DO $$
BEGIN
    IF to_regclass('toolindex.near') IS NOT NULL THEN
        DELETE FROM toolindex.near;
    END IF;
END
$$;
DROP TABLE IF EXISTS toolindex.near, toolindex.image, toolindex.page;
DROP SEQUENCE IF EXISTS toolindex.near_number;
DROP FUNCTION IF EXISTS toolindex.make_near(int, text, int), toolindex.index_near(text),
    toolindex.keep_near(int, bigint), toolindex.drop_near(), toolindex.may_write(int);
