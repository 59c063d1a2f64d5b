/*
 * capture.h — the end of a pipe into which a program writes its output.
 *
 * The first CAPTURE_KEPT_BYTES are kept, the rest is counted and forgotten; more than
 * CAPTURE_MAX_BYTES are too many, and the caller kills the program. Never blocks.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { CAPTURE_KEPT_BYTES = 64 * 1024, CAPTURE_MAX_BYTES = 8 << 20 };

struct capture {
    int fd; /* to watch */
    uint64_t seen_bytes;
    struct buffer kept;
};

/* Opens the pipe; *write_end is the program's, and the caller closes it. */
enum status capture_init(struct capture *capture, int *write_end, struct error *err);
void capture_release(struct capture *capture);
/* Takes what is there. False: the pipe has ended. */
bool capture_read(struct capture *capture);
bool capture_is_too_long(const struct capture *capture);

/* Appends the kept output for people: control bytes other than newline and tab, and bytes that are
 * not UTF-8, as \xHH; at most `size_max` bytes; says at the end what was left out. */
void capture_write(const struct capture *capture, struct buffer *text, size_t size_max);
