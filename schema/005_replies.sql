-- Answers to requests with an Idempotency-Key: the same request gets them again.
CREATE TABLE reply (
    token TEXT NOT NULL REFERENCES token (id),
    key TEXT NOT NULL,
    request_sha256 BLOB NOT NULL CHECK (length(request_sha256) = 32),
    http_status INTEGER NOT NULL,
    location TEXT NOT NULL,
    body TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (token, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX reply_by_age ON reply (created_ms);
