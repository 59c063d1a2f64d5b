#include "server/boards.h"

#include "common/mem.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESULTS_MAX = 4 * BOARD_ROWS_MAX };

/* A result that may be on a board. */
struct candidate {
    struct board_row row;
    char worker[NAME_MAX_BYTES];
};

struct candidates {
    struct candidate *list;
    int count;
};

static enum status find_gpu(struct db *db, int task_number, struct board *board, struct error *err)
{
    static const char sql[] =
        "SELECT gpu FROM result WHERE task = ?1 AND world = ?2 AND dtype = ?3 AND device = ?4"
        " AND verdict IN ('accepted', 'suspect') GROUP BY gpu ORDER BY count(*) DESC, gpu LIMIT 1";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    sqlite3_bind_int(select, 1, task_number);
    sqlite3_bind_int(select, 2, board->world);
    db_bind_text(select, 3, dtype_name(board->dtype));
    db_bind_text(select, 4, device_kind_name(board->device));
    status = db_step(db, select, &row, err);
    if (status == OK && row) {
        db_column_text(select, 0, board->gpu, sizeof board->gpu);
        db_reset(select);
    }
    return status;
}

#define CANDIDATE                                                                                  \
    "SELECT result.submission, job, model, finished_ms, peer_bytes, median_us, low_us, high_us,"   \
    " baseline_us, speedup, target_percent, is_faster, verdict, is_insecure, disqualified,"        \
    " worker, reason FROM result JOIN submission ON submission.id = result.submission"             \
    " WHERE result.task = ?1 AND world = ?2 AND dtype = ?3 AND device = ?4"                        \
    " AND verdict IN ('accepted', 'suspect')"

static void set_mark(struct board_row *row, const char *mark, const char *reason)
{
    (void)snprintf(row->mark, sizeof row->mark, "%s", mark);
    (void)snprintf(row->reason, sizeof row->reason, "%s", reason);
}

static void read_candidate(struct sqlite3_stmt *select, enum device_kind device,
                           struct candidate *candidate)
{
    struct board_row *row = &candidate->row;
    char verdict[NAME_MAX_BYTES];
    char disqualified[NAME_MAX_BYTES];
    char reason[NAME_MAX_BYTES];

    *candidate = (struct candidate){.row.runs = 1};
    db_column_text(select, 0, row->submission_id, sizeof row->submission_id);
    db_column_text(select, 1, row->job_id, sizeof row->job_id);
    db_column_text(select, 2, row->model, sizeof row->model);
    row->accepted_ms = sqlite3_column_int64(select, 3);
    row->peer_bytes = sqlite3_column_int64(select, 4);
    row->median_us = sqlite3_column_double(select, 5);
    row->low_us = sqlite3_column_double(select, 6);
    row->high_us = sqlite3_column_double(select, 7);
    row->baseline_us = sqlite3_column_double(select, 8);
    row->speedup = sqlite3_column_double(select, 9);
    row->target_percent = sqlite3_column_double(select, 10);
    row->is_faster = sqlite3_column_int(select, 11) != 0;
    db_column_text(select, 12, verdict, sizeof verdict);
    db_column_text(select, 14, disqualified, sizeof disqualified);
    db_column_text(select, 15, candidate->worker, sizeof candidate->worker);
    db_column_text(select, 16, reason, sizeof reason);
    if (disqualified[0] != 0) {
        set_mark(row, "disqualified", disqualified);
    } else if (sqlite3_column_int(select, 13) != 0) {
        set_mark(row, "insecure", "");
    } else if (strcmp(verdict, "suspect") == 0) {
        set_mark(row, "suspect", reason);
    } else if (device == DEVICE_CUDA_SHARED) {
        set_mark(row, "shared", "");
    } else if (device == DEVICE_CUDA && row->median_us <= 0) {
        set_mark(row, "untimed", "");
    }
}

static enum status read_candidates(struct db *db, const char *sql, int task_number,
                                   const struct board *board, struct candidates *candidates,
                                   struct error *err)
{
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    candidates->list = xcalloc(RESULTS_MAX, sizeof candidates->list[0]);
    sqlite3_bind_int(select, 1, task_number);
    sqlite3_bind_int(select, 2, board->world);
    db_bind_text(select, 3, dtype_name(board->dtype));
    db_bind_text(select, 4, device_kind_name(board->device));
    db_bind_text(select, 5, board->gpu);
    sqlite3_bind_int(select, 6, RESULTS_MAX);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            assert(candidates->count < RESULTS_MAX);
            read_candidate(select, board->device, &candidates->list[candidates->count++]);
        }
    }
    return status;
}

/* By submission, those without a mark first, then by time. */
static int compare_submissions(const void *left, const void *right)
{
    const struct board_row *a = &((const struct candidate *)left)->row;
    const struct board_row *b = &((const struct candidate *)right)->row;
    int order = strcmp(a->submission_id, b->submission_id);

    if (order == 0) {
        order = (a->mark[0] != 0) - (b->mark[0] != 0);
    }
    return order != 0 ? order : (a->median_us > b->median_us) - (a->median_us < b->median_us);
}

/* Makes one of each submission's results: the median one of those that count. */
static void join_submissions(struct candidates *candidates)
{
    struct candidate *list = candidates->list;
    int kept = 0;
    int end = 0;

    qsort(list, (size_t)candidates->count, sizeof list[0], compare_submissions);
    for (int start = 0; start < candidates->count; start = end) {
        int clean = 0;
        bool is_verified = false;
        for (end = start; end < candidates->count &&
                          strcmp(list[end].row.submission_id, list[start].row.submission_id) == 0;
             end++) {
            if (list[end].row.mark[0] == 0) {
                clean++;
                is_verified = is_verified || strcmp(list[end].worker, list[start].worker) != 0;
            }
        }
        list[kept] = list[start + (clean > 0 ? (clean - 1) / 2 : 0)];
        list[kept].row.runs = clean > 0 ? clean : 1;
        list[kept].row.is_verified = is_verified;
        kept++;
    }
    candidates->count = kept;
}

/* Those without a mark first, by time; untimed ones by acceptance. */
static int compare_speed(const void *left, const void *right)
{
    const struct board_row *a = &((const struct candidate *)left)->row;
    const struct board_row *b = &((const struct candidate *)right)->row;
    int order = (a->mark[0] != 0) - (b->mark[0] != 0);

    if (order == 0) {
        order = (a->median_us > b->median_us) - (a->median_us < b->median_us);
    }
    if (order == 0) {
        order = (a->accepted_ms > b->accepted_ms) - (a->accepted_ms < b->accepted_ms);
    }
    return order != 0 ? order : strcmp(a->job_id, b->job_id);
}

/* Sorts and numbers the rows, and gives them to the board. */
static void rank(struct candidates *candidates, struct board *board)
{
    const struct board_row *leader = NULL;
    int count = candidates->count < BOARD_ROWS_MAX ? candidates->count : BOARD_ROWS_MAX;

    qsort(candidates->list, (size_t)candidates->count, sizeof candidates->list[0], compare_speed);
    board->rows = xcalloc((size_t)count + 1, sizeof board->rows[0]);
    board->row_count = (size_t)count;
    for (int i = 0; i < count; i++) {
        struct board_row *row = &board->rows[i];
        *row = candidates->list[i].row;
        if (row->mark[0] != 0) {
            continue;
        }
        bool is_tied = leader != NULL && row->median_us > 0 && row->low_us <= leader->high_us;
        row->rank = is_tied ? leader->rank : i + 1;
        leader = is_tied ? leader : row;
    }
}

enum status board_make(struct db *db, int task_number, struct board *board, struct error *err)
{
    static const char by_speed[] = CANDIDATE " AND gpu = ?5 ORDER BY median_us, job LIMIT ?6";
    static const char by_time[] = CANDIDATE " AND ?5 = '' ORDER BY finished_ms, job LIMIT ?6";
    struct candidates candidates = {0};
    bool is_sim = board->device == DEVICE_SIM;
    enum status status = OK;

    if (!is_sim && board->gpu[0] == 0) {
        status = find_gpu(db, task_number, board, err);
    }
    if (status == OK) {
        status =
            read_candidates(db, is_sim ? by_time : by_speed, task_number, board, &candidates, err);
    }
    if (status == OK && !is_sim) {
        join_submissions(&candidates);
    }
    if (status == OK) {
        rank(&candidates, board);
    }
    free(candidates.list);
    return status;
}

enum status board_history(struct db *db, int task_number, struct board *board, struct error *err)
{
    static const char sql[] =
        "SELECT submission, job, model, finished_ms, peer_bytes, median_us, low_us, high_us,"
        " baseline_us, speedup, target_percent, is_faster, verdict, is_insecure, disqualified,"
        " worker, reason FROM (SELECT result.*, model, disqualified, min(median_us) OVER"
        " (ORDER BY finished_ms, job ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best_us"
        " FROM result JOIN submission ON submission.id = result.submission"
        " WHERE result.task = ?1 AND world = ?2 AND dtype = ?3 AND device = ?4"
        " AND verdict = 'accepted' AND NOT is_insecure AND disqualified = ''"
        " AND gpu = ?5 AND (median_us > 0 OR device = 'sim'))"
        " WHERE best_us IS NULL OR median_us < best_us ORDER BY finished_ms, job LIMIT ?6";
    struct candidates candidates = {0};
    enum status status = OK;

    if (board->device != DEVICE_SIM && board->gpu[0] == 0) {
        status = find_gpu(db, task_number, board, err);
    }
    if (status == OK) {
        status = read_candidates(db, sql, task_number, board, &candidates, err);
    }
    if (status == OK) {
        board->rows = xcalloc((size_t)candidates.count + 1, sizeof board->rows[0]);
        while (board->row_count < (size_t)candidates.count && board->row_count < BOARD_ROWS_MAX) {
            struct board_row *row = &board->rows[board->row_count];
            *row = candidates.list[board->row_count++].row;
            row->rank = 1;
        }
    }
    free(candidates.list);
    return status;
}
