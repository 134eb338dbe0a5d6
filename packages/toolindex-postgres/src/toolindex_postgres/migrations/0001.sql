-- Everything is in one schema, so that the database can be shared with other programs. Texts from
-- tools are stored as JSON in ASCII, because PostgreSQL accepts neither NUL nor lone surrogates.
-- Readers and writers only see the rows of their own trees, which are listed in `access`.

-- One row: the version of the schema, and an id that changes if the database is created again.
CREATE TABLE toolindex.state (
    version int NOT NULL,
    database uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO toolindex.state (version) VALUES (0);

CREATE TABLE toolindex.tree (
    tree_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    generation bigint NOT NULL DEFAULT 0,       -- changes with every change of the tree
    reader_version text,                        -- of the reader that made the records
    is_complete boolean NOT NULL DEFAULT false  -- whether a whole tree has been synced
);

-- The last states of each tree. If the state of a copy is not among them, the server may have been
-- replaced by a replica or a backup without its last changes.
CREATE TABLE toolindex.step (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    generation bigint NOT NULL,
    PRIMARY KEY (tree_id, generation)
);

-- Tools. A removed one stays without a record, so that hosts that still have it remove it, too.
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
CREATE INDEX ON toolindex.entry (tree_id, split_part(id, ':', 1), split_part(id, ':', 2));

-- Vectors of texts and of queries, each with the tree for which a writer stored it. A text that has
-- a vector in another tree is not embedded again: a host copies the vector, if it may write that tree
-- and so trusts it.
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

-- The events of all hosts in the order in which they arrived: searches (as JSON in `search`) and
-- outcomes. An event that is sent again has the same id.
CREATE TABLE toolindex.usage (
    tree_id int PRIMARY KEY REFERENCES toolindex.tree ON DELETE CASCADE,
    last bigint NOT NULL,                       -- the number of the last event
    outcome bigint NOT NULL                     -- the number of the last outcome
);
CREATE TABLE toolindex.event (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    event uuid NOT NULL,
    host uuid NOT NULL,                         -- that recorded it
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

-- Long work that only one host at a time does. It locks the row, for which it needs the right to
-- write the tree.
CREATE TABLE toolindex.lease (
    tree text,                                  -- its name, or '' for all trees of a role
    role name,                                  -- or '' for all roles
    purpose text,
    PRIMARY KEY (tree, role, purpose)
);

-- The trees that a role may read or write; '*' means all trees.
CREATE TABLE toolindex.access (
    role name NOT NULL,
    tree text NOT NULL,
    writes boolean NOT NULL,
    PRIMARY KEY (role, tree)
);

-- These functions run with the rights of their owner, because roles may not read `access`. They only
-- answer for roles of the session.
CREATE FUNCTION toolindex.may(session_role name, tree text, to_write boolean) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_has_role(session_user, $1, 'MEMBER') AND (EXISTS (
        SELECT 1 FROM toolindex.access AS a JOIN pg_roles AS r ON r.rolname = a.role
        WHERE (a.tree = $2 OR a.tree = '*') AND (a.writes OR NOT $3)
        AND pg_has_role($1, r.oid, 'MEMBER')
    ) OR pg_has_role($1, current_user, 'MEMBER'))
$$;
-- The numbers of a role's trees, which policies look up once per statement, not once per row.
CREATE FUNCTION toolindex.trees(session_role name, to_write boolean) RETURNS int[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH given AS MATERIALIZED (
        SELECT DISTINCT a.tree FROM toolindex.access AS a JOIN pg_roles AS r ON r.rolname = a.role
        WHERE (a.writes OR NOT $2) AND pg_has_role($1, r.oid, 'MEMBER')
        AND pg_has_role(session_user, $1, 'MEMBER')
    )
    SELECT coalesce(array_agg(t.tree_id), '{}') FROM toolindex.tree AS t
    WHERE t.name IN (SELECT g.tree FROM given AS g) OR '*' IN (SELECT g.tree FROM given AS g)
$$;
-- The state of a tree, which every search requests first. It is a function because each session of the
-- server keeps the plan of a function, even if a pooler lends the session to several hosts.
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
-- Add events to the record, for every role that may read the tree. Numbers are assigned while one row
-- is locked, so a host that has read up to a number has missed no event before it.
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

-- A tree that does not exist yet has no number, so the rights to it are looked up by its name.
ALTER TABLE toolindex.tree ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON toolindex.tree FOR SELECT USING (toolindex.may(current_user, name, false));
CREATE POLICY adding ON toolindex.tree FOR INSERT
    WITH CHECK (toolindex.may(current_user, name, true));
CREATE POLICY moving ON toolindex.tree FOR UPDATE
    USING (toolindex.may(current_user, name, true))
    WITH CHECK (toolindex.may(current_user, name, true));

ALTER TABLE toolindex.lease ENABLE ROW LEVEL SECURITY;
CREATE POLICY writing ON toolindex.lease USING (
    CASE role WHEN '' THEN toolindex.may(current_user, tree, true) ELSE role = current_user END);

DO $$
DECLARE it text;
BEGIN
    FOREACH it IN ARRAY ARRAY[
        'entry', 'step', 'tree_vector', 'query_vector', 'usage', 'event'
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
