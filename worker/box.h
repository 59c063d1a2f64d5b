/*
 * box.h — programs that are started together and end together, each in its sandbox.
 *
 * box_start forks a keeper: it starts the programs, each in a session of its own, is the reaper of
 * whatever they leave behind, and tells of each end. When the box is killed, closed, or the worker
 * dies, the keeper kills all that is in the sandboxes or descends from it, and ends last. The
 * caller watches box_fd and calls box_next until it has nothing more. A program has the descriptors
 * it is given, no others.
 */
#pragma once

#include "common/error.h"

#include <stdint.h>
#include <sys/types.h>

enum { BOX_PROGRAMS_MAX = 12, BOX_FDS_MAX = 32, BOX_EXIT_NOT_STARTED = 127 };

struct box;
struct sandbox;

/* Limits of one process; 0: none. */
struct box_limits {
    uint64_t cpu_s, memory_bytes, file_bytes, files;
    int processor; /* 1 + the one on which it begins; 0: any */
};

struct box_program {
    char *const *argv; /* argv[0] is the path */
    char *const *env;
    const char *directory; /* NULL: stays in the worker's */
    int fds[BOX_FDS_MAX];  /* open in the program under the same numbers */
    int fd_count;
    int output;               /* its stdout and stderr; its stdin is empty */
    struct box_limits limits; /* those of a sandbox are its first program's */
    /* NULL: none. Paths above are as seen inside. Programs of one sandbox are neighbours. */
    struct sandbox *sandbox;
};

enum box_event_kind { BOX_OPENED, BOX_STARTED, BOX_ENDED, BOX_LIMIT };
enum box_limit { BOX_LIMIT_MEMORY, BOX_LIMIT_PROCESSES };

struct box_event {
    enum box_event_kind kind;
    int program; /* index; of BOX_OPENED and BOX_LIMIT: the first of the sandbox */
    pid_t pid;   /* of BOX_OPENED: the first process inside, which lives as long as the sandbox */
    int wait_status; /* of BOX_ENDED, as from waitpid; exit code 127: it could not be started */
    enum box_limit limit; /* of BOX_LIMIT, told once, before the ends that it causes */
};

/* The descriptors stay the caller's, who closes them when this has returned; sandboxes have to
 * stay until box_close. */
enum status box_start(struct box **box, const struct box_program *programs, int count,
                      struct error *err);
int box_fd(const struct box *box);
/* ERR_NOT_FOUND: nothing now. ERR_UNAVAILABLE: every process of the box is gone. */
enum status box_next(struct box *box, struct box_event *event, struct error *err);
void box_kill_program(struct box *box, int program);
void box_kill(struct box *box);
/* Kills what still runs, and waits for it. NULL: nothing. */
void box_close(struct box *box);
