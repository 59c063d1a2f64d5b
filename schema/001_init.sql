-- The first schema. Times are wall clock, milliseconds since 1970. Public ids begin with time, so
-- that rows of one table are stored in the order in which they came.

-- Who may ask. `name` is the owner of what is made with the token; `node` binds a worker's token.
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    secret_sha256 BLOB NOT NULL CHECK (length(secret_sha256) = 32),
    role TEXT NOT NULL CHECK (role IN ('reader', 'submitter', 'worker', 'admin')),
    name TEXT NOT NULL,
    node TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER
) STRICT, WITHOUT ROWID;

-- Each text once, compressed.
CREATE TABLE source (
    sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    zstd BLOB NOT NULL
) STRICT;

CREATE TABLE submission (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    token TEXT NOT NULL REFERENCES token (id),
    task INTEGER NOT NULL,
    model TEXT NOT NULL,
    source BLOB NOT NULL REFERENCES source (sha256),
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX submission_by_owner ON submission (owner, id);

-- One evaluation of a submission. `epoch` rises with each lease and fences what comes later.
CREATE TABLE job (
    id TEXT PRIMARY KEY,
    submission TEXT NOT NULL REFERENCES submission (id),
    world INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    seed INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'done', 'cancelled', 'quarantined')),
    stage TEXT NOT NULL DEFAULT '',
    epoch INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    queued_ms INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL DEFAULT 0,
    verdict TEXT NOT NULL DEFAULT '',
    lost_workers INTEGER NOT NULL DEFAULT 0,
    lost_nodes INTEGER NOT NULL DEFAULT 0,
    lost_first_node TEXT NOT NULL DEFAULT '',
    internal_errors INTEGER NOT NULL DEFAULT 0,
    internal_error_epoch INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX job_by_submission ON job (submission, id);
-- In the order of leases, with all that a lease asks for.
CREATE INDEX job_queued ON job (state, queued_ms, id, world, device) WHERE state = 'queued';
CREATE INDEX job_leased ON job (id) WHERE state = 'leased';

-- How a job ended. What boards sort by is copied here.
CREATE TABLE result (
    job TEXT PRIMARY KEY REFERENCES job (id),
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    verdict TEXT NOT NULL,
    task INTEGER NOT NULL,
    world INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    finished_ms INTEGER NOT NULL,
    peer_bytes INTEGER NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE INDEX result_board ON result (task, world, dtype, device, finished_ms, job, peer_bytes)
    WHERE verdict = 'accepted';

CREATE TABLE worker (
    name TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    devices TEXT NOT NULL,
    registered_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What happened, for people and audits: rows are only ever added.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_subject ON event (subject, id);
CREATE TRIGGER event_is_not_changed BEFORE UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are only added');
END;
CREATE TRIGGER event_is_not_deleted BEFORE DELETE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are only added');
END;
