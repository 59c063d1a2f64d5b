-- Batches of submissions, and what reports and boards ask of a result.

-- Tasks by number: a result keeps its task's name when the program has that task no more.
CREATE TABLE task (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    family TEXT NOT NULL
) STRICT;

-- Which of a model's tries at its task this is, from 1; 0: not said.
ALTER TABLE submission ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;

-- `line_count` lines are dealt with: what is sent again under the same key goes on behind them.
CREATE TABLE batch (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    token TEXT NOT NULL REFERENCES token (id),
    key TEXT,
    state TEXT NOT NULL CHECK (state IN ('receiving', 'received', 'cancelled')),
    created_ms INTEGER NOT NULL,
    line_count INTEGER NOT NULL DEFAULT 0,
    refused_count INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX batch_by_key ON batch (token, key) WHERE key IS NOT NULL;
CREATE INDEX batch_by_owner ON batch (owner, id);

-- A line that is not blank: its job, or why there is none.
CREATE TABLE batch_line (
    batch TEXT NOT NULL REFERENCES batch (id),
    line INTEGER NOT NULL,
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    job TEXT REFERENCES job (id),
    field TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (batch, line)
) STRICT, WITHOUT ROWID;
CREATE TABLE batch_model (
    batch TEXT NOT NULL REFERENCES batch (id),
    model TEXT NOT NULL,
    PRIMARY KEY (batch, model)
) STRICT, WITHOUT ROWID;
-- The same try twice would be counted twice.
CREATE TABLE batch_attempt (
    batch TEXT NOT NULL REFERENCES batch (id),
    model TEXT NOT NULL,
    task INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    world INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    job TEXT NOT NULL REFERENCES job (id),
    PRIMARY KEY (batch, world, dtype, device, model, task, attempt)
) STRICT, WITHOUT ROWID;

ALTER TABLE job ADD COLUMN batch TEXT NOT NULL DEFAULT '';
CREATE INDEX job_by_batch ON job (batch, state, finished_ms) WHERE batch <> '';

-- Times are those of the case 'bench', by latency; 0: not timed.
ALTER TABLE result ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE result ADD COLUMN stage TEXT NOT NULL DEFAULT '';
ALTER TABLE result ADD COLUMN mechanisms TEXT NOT NULL DEFAULT '';
ALTER TABLE result ADD COLUMN gpu TEXT NOT NULL DEFAULT '';
ALTER TABLE result ADD COLUMN is_insecure INTEGER NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN median_us REAL NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN low_us REAL NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN high_us REAL NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN baseline_us REAL NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN speedup REAL NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN is_faster INTEGER NOT NULL DEFAULT 0;
ALTER TABLE result ADD COLUMN target_percent REAL NOT NULL DEFAULT 0;

UPDATE result SET
    reason = coalesce(json_extract(json, '$.reason'), ''),
    stage = coalesce(json_extract(json, '$.stage'), ''),
    gpu = coalesce(json_extract(json, '$.gpu.name'), ''),
    mechanisms = coalesce((SELECT group_concat(name, ' ') FROM (
        SELECT DISTINCT json_extract(value, '$.mechanism') AS name
        FROM json_each(result.json, '$.traffic')
        WHERE json_extract(value, '$.source') <> json_extract(value, '$.owner')
        ORDER BY name)), ''),
    is_insecure = EXISTS (SELECT 1 FROM json_each(result.json, '$.flags') WHERE value LIKE 'insecure:%');
UPDATE result SET
    median_us = coalesce(json_extract(bench.value, '$.latency.median_us'), 0.0),
    low_us = coalesce(json_extract(bench.value, '$.latency.low_us'), 0.0),
    high_us = coalesce(json_extract(bench.value, '$.latency.high_us'), 0.0),
    baseline_us = coalesce(json_extract(bench.value, '$.baseline_us'), 0.0),
    speedup = coalesce(json_extract(bench.value, '$.speedup'), 0.0),
    is_faster = coalesce(json_extract(bench.value, '$.is_faster'), 0),
    target_percent = coalesce(json_extract(bench.value, '$.target_percent'), 0.0)
FROM (SELECT result.job AS of_job, timing.value, min(timing.key)
      FROM result, json_each(result.json, '$.timings') AS timing
      WHERE json_extract(timing.value, '$.case') = 'bench' GROUP BY result.job) AS bench
WHERE result.job = bench.of_job;
