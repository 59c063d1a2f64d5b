/*
 * build.h — from a source to a library that pkb-rank may load.
 *
 * build_prepare makes a fresh directory with solution.cu, solution.h and pkb_task.h and says how to
 * start nvcc in it; the caller runs that program in a box, captures its output, and gives how it
 * ended to build_judge, which scans what it made. build_remove deletes the directory.
 */
#pragma once

#include "common/result.h"
#include "tasks/task.h"
#include "worker/box.h"
#include "worker/capture.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUILD_PATH_MAX = 512, BUILD_ARGS_MAX = 40 };

struct build_options {
    const char *work_dir; /* directories of jobs are made here */
    const char *cuda_home;
    const struct task *task;
    enum dtype dtype;
    const char *source;
    size_t source_bytes;
    int64_t wall_ms; /* the limit; CPU time has the same */
};

struct build {
    char directory[BUILD_PATH_MAX];
    char library[BUILD_PATH_MAX]; /* solution.so in it */
    char nvcc[BUILD_PATH_MAX];
    char path_env[BUILD_PATH_MAX], tmp_env[BUILD_PATH_MAX];
    char *argv[BUILD_ARGS_MAX];
    char *env[4];
    struct box_limits limits;
};

/* ERR_IO: the directory or a file could not be made; nothing is left behind. */
enum status build_prepare(struct build *build, const struct build_options *options,
                          struct error *err);

/* How nvcc ended. */
struct build_end {
    int wait_status;
    bool is_late; /* killed by us: it took longer than it may */
};

/*
 * Fills in verdict, reason, message, stage, flags and build_log of `result`: accepted where the
 * library may be loaded, else compile_error, link_error, timeout or limit_exceeded; internal_error
 * where the compiler itself could not be run.
 */
void build_judge(const struct build *build, const struct build_end *end,
                 const struct capture *output, struct result *result);
void build_remove(struct build *build);
