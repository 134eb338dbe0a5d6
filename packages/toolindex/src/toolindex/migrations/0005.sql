-- From version 4 to 5: how often a text was refused, for the time after which it is tried again.

ALTER TABLE refusals ADD COLUMN times INTEGER NOT NULL DEFAULT 1;

-- As in a new database: an answer that is remembered of before is stale.
UPDATE meta SET value = strftime('%s') * 1048576 + abs(random() % 1048576) WHERE key = 'generation';
