/*
 * kernel_log.h — watches the kernel's log (/dev/kmsg) for errors of NVIDIA's driver.
 *
 * What was there before is passed over. Runs on the loop. What is no record, or about something
 * else, is passed over too; where the kernel wrote faster than this read, the lost records are
 * logged, and the watch goes on.
 */
#pragma once

#include "common/error.h"
#include "worker/xid.h"

struct kernel_log;

struct kernel_log_options {
    const char *path; /* /dev/kmsg, or what stands in for it */
    void (*found)(void *context, const struct xid *xid);
    /* Records were lost: what they said is not known. With `has_ended` so will all that come be. */
    void (*lost)(void *context, bool has_ended);
    void *context;
};

/* ERR_UNAVAILABLE: it cannot be opened, or is none. */
enum status kernel_log_open(struct kernel_log **log, const struct kernel_log_options *options,
                            struct error *err);
/* Takes in what is there now, without waiting. */
void kernel_log_read(struct kernel_log *log);
/* NULL: nothing. */
void kernel_log_close(struct kernel_log *log);
