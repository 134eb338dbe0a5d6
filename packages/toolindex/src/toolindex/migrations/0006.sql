-- From version 5 to 6: what cannot be made again is in the file beside the index, which has been
-- given all of these by now.

DROP TABLE embeddings;
DROP TABLE refusals;
DROP TABLE query_embeddings;
DROP TABLE searches;
DROP TABLE outcomes;
DELETE FROM meta WHERE key = 'usage_generation';

-- As in a new database: an answer that is remembered of before is stale.
UPDATE meta SET value = strftime('%s') * 1048576 + abs(random() % 1048576) WHERE key = 'generation';
