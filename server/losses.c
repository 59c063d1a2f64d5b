#include "server/losses.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* What is known of the workers that a job has taken with it. */
struct losses {
    int workers;
    int nodes;
    char first_node[NAME_MAX_BYTES];
};

/* `sql` selects the number of workers, that of nodes and the first node of the job ?1. */
static enum status read_losses(struct db *db, const char *sql, const char *job_id,
                               struct losses *losses, struct error *err)
{
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, job_id);
    status = db_step(db, select, &row, err);
    if (status == OK && row) {
        losses->workers = sqlite3_column_int(select, 0);
        losses->nodes = sqlite3_column_int(select, 1);
        db_column_text(select, 2, losses->first_node, sizeof losses->first_node);
    }
    db_reset(select);
    return status;
}

enum status loss_count(struct db *db, const struct lease *lease, int64_t wall_ms,
                       enum job_state *state, struct error *err)
{
    static const char select[] =
        "SELECT lost_workers, lost_nodes, lost_first_node FROM job WHERE id = ?1";
    static const char sql[] =
        "UPDATE job SET state = ?4, finished_ms = ?5, stage = '', worker = '', lost_workers = ?6,"
        " lost_nodes = ?7, lost_first_node = ?8"
        " WHERE id = ?1 AND epoch = ?2 AND worker = ?3 AND state = 'leased'";
    struct losses losses = {0};
    struct sqlite3_stmt *update = NULL;
    enum status status = read_losses(db, select, lease->job_id, &losses, err);

    if (status == OK) {
        status = db_prepare(db, sql, &update, err);
    }
    if (status != OK) {
        return status;
    }
    if (losses.workers == 0) {
        (void)snprintf(losses.first_node, sizeof losses.first_node, "%s", lease->worker);
        losses.nodes = 1;
    } else if (strcmp(losses.first_node, lease->worker) != 0) {
        losses.nodes = 2;
    }
    losses.workers++;
    *state = JOB_QUEUED;
    if ((losses.workers >= LOST_WORKERS_MAX && losses.nodes > 1) ||
        losses.workers >= LOST_ON_ONE_NODE_MAX) {
        *state = JOB_QUARANTINED;
    }
    db_bind_text(update, 1, lease->job_id);
    sqlite3_bind_int64(update, 2, lease->epoch);
    db_bind_text(update, 3, lease->worker);
    db_bind_text(update, 4, job_state_name(*state));
    sqlite3_bind_int64(update, 5, *state == JOB_QUARANTINED ? wall_ms : 0);
    sqlite3_bind_int(update, 6, losses.workers);
    sqlite3_bind_int(update, 7, losses.nodes);
    db_bind_text(update, 8, losses.first_node);
    return db_run(db, update, NULL, err);
}

enum status node_fault_count(struct db *db, const struct lease *lease, int64_t wall_ms,
                             enum job_state *state, bool *changed, struct error *err)
{
    static const char select[] =
        "SELECT node_faults, node_faults > 0, node_fault_first FROM job WHERE id = ?1";
    static const char sql[] =
        "UPDATE job SET state = ?4, finished_ms = ?5, stage = '', worker = '', node_faults = ?6,"
        " node_fault_first = ?7, node_fault_epoch = ?2"
        " WHERE id = ?1 AND epoch = ?2 AND worker = ?3 AND state = 'leased'";
    struct losses faults = {0};
    struct sqlite3_stmt *update = NULL;
    enum status status = read_losses(db, select, lease->job_id, &faults, err);
    int changes = 0;

    if (status == OK) {
        status = db_prepare(db, sql, &update, err);
    }
    if (status != OK) {
        return status;
    }
    bool is_first = faults.workers == 0;
    bool is_another = !is_first && strcmp(faults.first_node, lease->worker) != 0;
    const char *first_node = is_first ? lease->worker : faults.first_node;
    enum job_state becomes =
        is_another || faults.workers + 1 >= NODE_FAULTS_MAX ? JOB_QUARANTINED : JOB_QUEUED;
    db_bind_text(update, 1, lease->job_id);
    sqlite3_bind_int64(update, 2, lease->epoch);
    db_bind_text(update, 3, lease->worker);
    db_bind_text(update, 4, job_state_name(becomes));
    sqlite3_bind_int64(update, 5, becomes == JOB_QUARANTINED ? wall_ms : 0);
    sqlite3_bind_int(update, 6, faults.workers + 1);
    db_bind_text(update, 7, first_node);
    status = db_run(db, update, &changes, err);
    if (status == OK) {
        *changed = changes == 1;
        *state = becomes;
    }
    return status;
}
