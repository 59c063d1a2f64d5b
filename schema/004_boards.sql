-- What boards are made from, and what admins decide about submissions.

-- Why a submission is not ranked; empty: it is.
ALTER TABLE submission ADD COLUMN disqualified TEXT NOT NULL DEFAULT '';
-- Since when everybody may read its source; 0: nobody but its owner.
ALTER TABLE submission ADD COLUMN published_ms INTEGER NOT NULL DEFAULT 0;

-- Kept with the result, so that a board reads one index.
ALTER TABLE result ADD COLUMN submission TEXT NOT NULL DEFAULT '';
UPDATE result SET submission = (SELECT job.submission FROM job WHERE job.id = result.job);
DROP INDEX result_board;
CREATE INDEX result_by_time ON result (task, world, dtype, device, finished_ms, job)
    WHERE verdict IN ('accepted', 'suspect');
CREATE INDEX result_by_speed ON result (task, world, dtype, device, gpu, median_us, job)
    WHERE verdict IN ('accepted', 'suspect');
CREATE INDEX result_by_submission ON result (submission, world, dtype, device, gpu, median_us);

-- A model's best at a task: the fastest result, or the first where nothing is timed. Made from
-- result and submission, and made anew when a submission is disqualified.
CREATE TABLE model_task (
    world INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    gpu TEXT NOT NULL,
    model TEXT NOT NULL,
    task INTEGER NOT NULL,
    job TEXT NOT NULL REFERENCES job (id),
    median_us REAL NOT NULL,
    speedup REAL NOT NULL,
    is_faster INTEGER NOT NULL,
    target_percent REAL NOT NULL,
    mechanisms TEXT NOT NULL,
    PRIMARY KEY (world, dtype, device, gpu, model, task)
) STRICT, WITHOUT ROWID;
INSERT INTO model_task
SELECT world, dtype, device, gpu, model, result.task, job, median_us, speedup, is_faster,
    target_percent, mechanisms
FROM result JOIN submission ON submission.id = result.submission
WHERE verdict = 'accepted' AND NOT is_insecure AND model <> ''
ORDER BY median_us, finished_ms, job
ON CONFLICT DO NOTHING;
