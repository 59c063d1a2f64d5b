-- Which workers get leases, and jobs whose worker's node failed under them.

ALTER TABLE worker ADD COLUMN state TEXT NOT NULL DEFAULT 'ready'
    CHECK (state IN ('ready', 'draining', 'quarantined'));
ALTER TABLE worker ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN state_by TEXT NOT NULL DEFAULT '';
-- The worker itself set its state.
ALTER TABLE worker ADD COLUMN is_own INTEGER NOT NULL DEFAULT 0;
ALTER TABLE worker ADD COLUMN state_ms INTEGER NOT NULL DEFAULT 0;

ALTER TABLE job ADD COLUMN node_faults INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN node_fault_first TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN node_fault_epoch INTEGER NOT NULL DEFAULT 0;
