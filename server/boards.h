/*
 * boards.h — who is how fast at a task: the boards, their history, and models over all tasks.
 *
 * On the device cuda a submission has one row on the board of a GPU: the median one of its accepted
 * results, ranked by the median time. Who is not slower than the leader of a rank beyond both
 * intervals shares that rank. The simulator has no times: its boards list results in the order of
 * acceptance. What is suspect, insecure or disqualified, has no times or shared its GPUs is listed
 * behind, without a rank.
 */
#pragma once

#include "common/board.h"
#include "server/db.h"
#include "server/facts.h"
#include "server/report.h"

/* Fills in rows of board->task_number's board: world, dtype, device and gpu are given; gpu "": the
 * one that has most results there. The rows are owned by the board. */
enum status board_make(struct db *db, int task_number, struct board *board, struct error *err);

/* The results that were the fastest when they came (on the simulator: the first one), in their
 * order, as rows of the board. */
enum status board_history(struct db *db, int task_number, struct board *board, struct error *err);

/* What a model's board is about; gpu "": any that has most results. */
struct models_key {
    int world;
    enum dtype dtype;
    enum device_kind device;
    char gpu[NAME_MAX_BYTES];
};

/* Fills a report with all tasks and the best result of each model at each, as its first attempt: of
 * the MODELS_MAX models that solved most. */
enum status board_models(struct db *db, struct models_key *key, struct report *report,
                         struct error *err);

/* Keeps what board_models reads: after a new result, and after a submission's own disqualification
 * has changed. */
enum status board_note_result(struct db *db, const struct job *job, const struct facts *facts,
                              struct error *err);
enum status board_note_submission(struct db *db, const char *submission_id, struct error *err);
