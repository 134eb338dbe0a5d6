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

-- Vectors are shared by all trees, so that a text is embedded once. Who knows the text's hash may
-- have its vector; nobody but the owner may list them.
CREATE TABLE toolindex.vector (
    model text NOT NULL,
    dimensions int NOT NULL,
    text_hash text NOT NULL,
    v bytea NOT NULL,                           -- little-endian float32
    stored_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, dimensions, text_hash)
);
-- Which of them a tree has, and since when: what its hosts fetch.
CREATE TABLE toolindex.tree_vector (
    tree_id int NOT NULL REFERENCES toolindex.tree ON DELETE CASCADE,
    model text NOT NULL,
    dimensions int NOT NULL,
    text_hash text NOT NULL,
    generation bigint NOT NULL,
    PRIMARY KEY (tree_id, model, dimensions, text_hash)
);
CREATE INDEX ON toolindex.tree_vector (tree_id, generation);

-- Vectors of queries, by the hash of the query.
CREATE TABLE toolindex.query_vector (
    model text NOT NULL,
    dimensions int NOT NULL,
    query_hash text NOT NULL,
    v bytea NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, query_hash)
);

-- What roles may do: one row for each tree, '*' for all of them.
CREATE TABLE toolindex.access (
    role name NOT NULL,
    tree text NOT NULL,
    writes boolean NOT NULL,
    PRIMARY KEY (role, tree)
);

-- They run with the rights of their owner, for a role may read neither `access` nor the vectors.
CREATE FUNCTION toolindex.may(session_role name, tree text, to_write boolean) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT 1 FROM toolindex.access AS a JOIN pg_roles AS r ON r.rolname = a.role
        WHERE (a.tree = $2 OR a.tree = '*') AND (a.writes OR NOT $3)
        AND pg_has_role($1, r.oid, 'MEMBER')
    )
$$;
-- The numbers of the trees, asked once a statement and not for every row.
CREATE FUNCTION toolindex.trees(session_role name, to_write boolean) RETURNS int[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(t.tree_id), '{}') FROM toolindex.tree AS t
    WHERE toolindex.may($1, t.name, $2)
$$;

CREATE FUNCTION toolindex.vectors_of(of_model text, hashes text[])
RETURNS TABLE (dimensions int, text_hash text, v bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT e.dimensions, e.text_hash, e.v FROM toolindex.vector AS e
    WHERE e.model = of_model AND e.text_hash = ANY (hashes) ORDER BY e.stored_at, e.text_hash
$$;
CREATE FUNCTION toolindex.keep_vectors(of_model text, length int, hashes text[], vs bytea[])
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO toolindex.vector (model, dimensions, text_hash, v)
    SELECT of_model, length, given.h, given.v FROM unnest(hashes, vs) AS given (h, v) ORDER BY 3
    ON CONFLICT (model, dimensions, text_hash)
    DO UPDATE SET v = excluded.v, stored_at = excluded.stored_at
$$;
CREATE FUNCTION toolindex.copy_vectors(from_hashes text[], to_hashes text[])
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO toolindex.vector (model, dimensions, text_hash, v)
    SELECT DISTINCT ON (e.model, e.dimensions, given.new) e.model, e.dimensions, given.new, e.v
    FROM unnest(from_hashes, to_hashes) AS given (old, new)
    JOIN toolindex.vector AS e ON e.text_hash = given.old
    ORDER BY e.model, e.dimensions, given.new
    ON CONFLICT DO NOTHING
$$;
CREATE INDEX ON toolindex.vector (text_hash);
CREATE FUNCTION toolindex.forget_vectors(of_model text, hashes text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM toolindex.vector WHERE model = of_model AND text_hash = ANY (hashes)
$$;
CREATE FUNCTION toolindex.query_vector_of(of_model text, of_query text, length int)
RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT q.v FROM toolindex.query_vector AS q
    WHERE q.model = of_model AND q.query_hash = of_query
    AND (length IS NULL OR q.dimensions = length)
$$;
CREATE FUNCTION toolindex.keep_query_vectors(of_model text, length int, hashes text[], vs bytea[])
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO toolindex.query_vector (model, dimensions, query_hash, v)
    SELECT of_model, length, given.h, given.v FROM unnest(hashes, vs) AS given (h, v) ORDER BY 3
    ON CONFLICT (model, query_hash)
    DO UPDATE SET v = excluded.v, dimensions = excluded.dimensions, used_at = excluded.used_at
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

ALTER TABLE toolindex.entry ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON toolindex.entry FOR SELECT
    USING (tree_id = ANY ((SELECT toolindex.trees(current_user, false))::int[]));
CREATE POLICY writing ON toolindex.entry
    USING (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]))
    WITH CHECK (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]));
ALTER TABLE toolindex.tree_vector ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON toolindex.tree_vector FOR SELECT
    USING (tree_id = ANY ((SELECT toolindex.trees(current_user, false))::int[]));
CREATE POLICY writing ON toolindex.tree_vector
    USING (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]))
    WITH CHECK (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]));
ALTER TABLE toolindex.step ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON toolindex.step FOR SELECT
    USING (tree_id = ANY ((SELECT toolindex.trees(current_user, false))::int[]));
CREATE POLICY writing ON toolindex.step
    USING (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]))
    WITH CHECK (tree_id = ANY ((SELECT toolindex.trees(current_user, true))::int[]));
