/*
 * board.h — a board of a task as it travels, and the only code that reads or writes its JSON.
 *
 * Ranks are made once, in the server. Who reads it passes over keys that it does not know.
 */
#pragma once

#include "common/job.h"

#include <stdbool.h>

enum { BOARD_ROWS_MAX = 1000 };

struct board_row {
    int rank; /* 0: not ranked, for what `mark` says */
    char submission_id[ID_MAX];
    char job_id[ID_MAX];
    char model[NAME_MAX_BYTES];
    int64_t accepted_ms;
    int64_t peer_bytes;
    double median_us, low_us, high_us; /* 0: not timed; so the next three */
    double baseline_us, speedup, target_percent;
    bool is_faster;
    bool is_verified;          /* accepted on two nodes */
    int runs;                  /* results that it is the median of */
    char mark[NAME_MAX_BYTES]; /* "suspect", "insecure", "disqualified", "untimed", "shared" */
    char reason[NAME_MAX_BYTES];
};

struct board {
    char task[NAME_MAX_BYTES];
    int world;
    enum dtype dtype;
    enum device_kind device;
    char gpu[NAME_MAX_BYTES]; /* "": of the device sim, or nothing yet */
    struct board_row *rows;   /* owned; ranked ones first */
    size_t row_count;
};

void board_write(const struct board *board, struct buffer *json);
enum status board_read(struct board *board, const char *json, size_t size_bytes, struct error *err);
void board_release(struct board *board);
