-- Everything is in one schema, so that it can live in a database that others use, too. Texts that
-- come from tools are kept as JSON in ASCII: PostgreSQL takes neither NUL nor halves of characters.
-- Roles of readers and writers see the rows of their trees only: `access` says which those are.

CREATE SCHEMA toolindex;

-- One row: the state of the schema, and what tells this database from one that was made again.
CREATE TABLE toolindex.state (
    version int NOT NULL,
    database uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO toolindex.state (version) VALUES (0);

CREATE TABLE toolindex.tree (
    tree_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    generation bigint NOT NULL DEFAULT 0,       -- moves with every change; hosts ask for it
    reader_version text,                        -- what made the records
    is_complete boolean NOT NULL DEFAULT false  -- whether a whole tree has been synced
);

-- The last states of each tree. A copy of a state that is not among them may be one of a server that
-- was lost, and of which a replica or a backup without its last changes took the place.
CREATE TABLE toolindex.step (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    generation bigint NOT NULL,
    PRIMARY KEY (tree_id, generation)
);

-- A tool, or one that is gone (no record), so that hosts which still have it are told.
CREATE TABLE toolindex.entry (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    id text NOT NULL,
    path text NOT NULL,
    file_hash text NOT NULL,
    text_hash text NOT NULL,
    record text,
    definitions text NOT NULL DEFAULT '""',
    aliases text NOT NULL DEFAULT '[]',
    generation bigint NOT NULL,                 -- of the tree when the record last changed
    aliased bigint NOT NULL DEFAULT 0,          -- of the tree when the aliases last changed
    PRIMARY KEY (tree_id, id)
);
CREATE INDEX ON toolindex.entry (tree_id, generation);
CREATE INDEX ON toolindex.entry (tree_id, aliased) WHERE aliased > 0;
CREATE INDEX ON toolindex.entry (tree_id, path);
CREATE INDEX ON toolindex.entry (tree_id, text_hash);

-- Vectors of texts and of queries, each with the tree whose writers stored it: nobody else can have
-- put it there. A text that another tree has a vector for is not embedded again: a host takes it from
-- a tree that it may write itself, and so trusts.
CREATE TABLE toolindex.tree_vector (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    model text NOT NULL,
    dimensions int NOT NULL,
    text_hash text NOT NULL,
    generation bigint NOT NULL,                 -- of the tree when it got the vector
    v bytea NOT NULL,                           -- little-endian float32
    PRIMARY KEY (tree_id, model, dimensions, text_hash)
);
CREATE INDEX ON toolindex.tree_vector (tree_id, generation);
CREATE INDEX ON toolindex.tree_vector (text_hash, model);
CREATE TABLE toolindex.query_vector (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    model text NOT NULL,
    query_hash text NOT NULL,
    v bytea NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tree_id, model, query_hash)
);

-- What has happened on all hosts, in the order in which the server learned of it: searches (their JSON
-- in `search`) and outcomes. An event that is sent again has the same id.
CREATE TABLE toolindex.usage (
    tree_id int PRIMARY KEY REFERENCES toolindex.tree ON DELETE CASCADE,
    last bigint NOT NULL,                       -- the number of the last event
    outcome bigint NOT NULL                     -- the number of the last that was an outcome
);
CREATE TABLE toolindex.event (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    event uuid NOT NULL,
    host uuid NOT NULL,                         -- where it happened
    no bigint NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now(),
    at float8 NOT NULL,                         -- by the host's clock, in seconds since 1970
    tool_id text,
    success boolean,
    latency_ms float8,
    search_id text,
    search text,
    PRIMARY KEY (tree_id, event)
);
CREATE INDEX ON toolindex.event (tree_id, no) WHERE search IS NULL;
CREATE INDEX ON toolindex.event (tree_id, no) WHERE search IS NOT NULL;

-- An index of the tree as SQLite has it, in pages that hosts without a copy of it read and write. It
-- can be made from the rows above, and is, by the first such host.
CREATE TABLE toolindex.page (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    n int NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (tree_id, n)
);
-- To unpack them costs the server more than to send them.
ALTER TABLE toolindex.page ALTER COLUMN data SET STORAGE EXTERNAL;
-- The last states of the pages; the newest is in force.
CREATE TABLE toolindex.image (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    generation bigint NOT NULL,
    follows bigint NOT NULL,                    -- the state of the tree that they hold
    size int NOT NULL,                          -- how many pages there are
    changed int[],                              -- which changed; NULL where all may have
    PRIMARY KEY (tree_id, generation)
);

-- What roles may do: one row for each tree, '*' for all of them.
CREATE TABLE toolindex.access (
    role name NOT NULL,
    tree text NOT NULL,
    writes boolean NOT NULL,
    PRIMARY KEY (role, tree)
);

-- They run with the rights of their owner, for a role may not read `access`.
CREATE FUNCTION toolindex.may(session_role name, tree text, to_write boolean) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT 1 FROM toolindex.access AS a JOIN pg_roles AS r ON r.rolname = a.role
        WHERE (a.tree = $2 OR a.tree = '*') AND (a.writes OR NOT $3)
        AND pg_has_role($1, r.oid, 'MEMBER')
    ) OR pg_has_role($1, current_user, 'MEMBER')
$$;
-- The numbers of the trees, asked once a statement and not for every row.
CREATE FUNCTION toolindex.trees(session_role name, to_write boolean) RETURNS int[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH given AS MATERIALIZED (
        SELECT DISTINCT a.tree FROM toolindex.access AS a JOIN pg_roles AS r ON r.rolname = a.role
        WHERE (a.writes OR NOT $2) AND pg_has_role($1, r.oid, 'MEMBER')
    )
    SELECT coalesce(array_agg(t.tree_id), '{}') FROM toolindex.tree AS t
    WHERE t.name IN (SELECT g.tree FROM given AS g) OR '*' IN (SELECT g.tree FROM given AS g)
$$;
-- What every search asks first. A function, because its plan is kept by each session of the server,
-- also where a pooler lends the session to others.
CREATE FUNCTION toolindex.look(of_tree text)
RETURNS TABLE (version text, database text, tree text, generation text, reader_version text,
    is_complete text, outcome text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT s.version::text, s.database::text, t.tree_id::text, t.generation::text,
        t.reader_version, t.is_complete::text, u.outcome::text
    FROM toolindex.state AS s
    LEFT JOIN toolindex.tree AS t ON t.name = of_tree AND toolindex.may(session_user, t.name, false)
    LEFT JOIN toolindex.usage AS u ON u.tree_id = t.tree_id;
END
$$;
-- Add events to the record, for everyone who may read the tree. Numbers are given under the lock of
-- one row, so that whoever has read up to one has missed none before it.
CREATE FUNCTION toolindex.record(of_tree text, events json) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH given AS MATERIALIZED (
        SELECT e, n, e ->> 7 IS NULL AS is_outcome
        FROM json_array_elements(events) WITH ORDINALITY AS g (e, n)
    ), place AS (
        INSERT INTO toolindex.usage AS u (tree_id, last, outcome)
        SELECT t.tree_id, (SELECT count(*) FROM given),
            (SELECT coalesce(max(n), 0) FROM given WHERE is_outcome)
        FROM toolindex.tree AS t
        WHERE t.name = of_tree AND toolindex.may(session_user, t.name, false)
        ON CONFLICT (tree_id) DO UPDATE SET last = u.last + excluded.last,
            outcome = CASE WHEN excluded.outcome > 0 THEN u.last + excluded.outcome
                ELSE u.outcome END
        RETURNING u.tree_id, u.last - (SELECT count(*) FROM given) AS before, u.last
    ), added AS (
        INSERT INTO toolindex.event
            (tree_id, no, event, host, at, tool_id, success, latency_ms, search_id, search)
        SELECT tree_id, before + n, (e ->> 0)::uuid, (e ->> 1)::uuid, (e ->> 2)::float8, e ->> 3,
            (e ->> 4)::boolean, (e ->> 5)::float8, e ->> 6, e ->> 7
        FROM place, given ORDER BY n
        ON CONFLICT (tree_id, event) DO NOTHING
    )
    SELECT max(last) FROM place
$$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA toolindex FROM PUBLIC;

-- The row of a tree that does not exist yet has no number to look up: its name says who may.
ALTER TABLE toolindex.tree ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON toolindex.tree FOR SELECT USING (toolindex.may(current_user, name, false));
CREATE POLICY adding ON toolindex.tree FOR INSERT
    WITH CHECK (toolindex.may(current_user, name, true));
CREATE POLICY moving ON toolindex.tree FOR UPDATE
    USING (toolindex.may(current_user, name, true))
    WITH CHECK (toolindex.may(current_user, name, true));

DO $$
DECLARE it text;
BEGIN
    FOREACH it IN ARRAY ARRAY[
        'entry', 'step', 'tree_vector', 'query_vector', 'usage', 'event', 'image', 'page'
    ] LOOP
        EXECUTE format('ALTER TABLE toolindex.%I ENABLE ROW LEVEL SECURITY', it);
        EXECUTE format(
            'CREATE POLICY reading ON toolindex.%I FOR SELECT '
            'USING (tree_id = ANY ((SELECT toolindex.trees(current_user, false))::int[]))', it);
        EXECUTE format(
            'CREATE POLICY writing ON toolindex.%I '
            'USING (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[])) '
            'WITH CHECK (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]))', it);
    END LOOP;
END
$$;
