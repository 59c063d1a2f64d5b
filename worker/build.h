/*
 * build.h — from a source to a library that pkb-rank may load.
 *
 * build_prepare plans a sandbox with solution.cu, solution.h and pkb_task.h and says how to start
 * pkb-compile, which is nvcc in less time, in it; the caller runs build->program in a box, captures
 * its output, tells of the box's events by build_note, and asks for the verdict by build_judge when
 * all processes are gone.
 */
#pragma once

#include "common/result.h"
#include "tasks/task.h"
#include "worker/box.h"
#include "worker/capture.h"
#include "worker/sandbox.h"
#include "worker/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUILD_ARGS_MAX = 48 };

/* result.builder */
#define BUILD_BY_STAGES "stages" /* nvcc's commands, run side by side by pkb-compile */
#define BUILD_BY_STORE "store"   /* an earlier build of the same */
#define BUILD_BY_NVCC "nvcc"     /* nvcc itself: the other way was not open, or not certain */

struct build_options {
    const struct sandbox_node *node;
    int slot;
    const struct task *task;
    enum dtype dtype;
    const char *source;
    size_t source_bytes;
    int64_t wall_ms;                    /* the limit; CPU time has the same */
    const struct cgroup_limits *limits; /* NULL: those of the policy */
    bool is_plain;                      /* by nvcc itself */
};

struct build {
    struct sandbox *sandbox;
    struct box_program program; /* all but its output */
    char *argv[BUILD_ARGS_MAX];
    char *env[4];
    pid_t first_process;
    int out;     /* directory; -1: not opened */
    int library; /* sealed memory file; -1: none */
    bool is_plain;
    /* How it ended. */
    int wait_status;
    bool is_late; /* killed by the caller: it took longer than it may */
    bool is_out_of_memory, is_out_of_processes, is_disk_full;
};

/* ERR_IO, ERR_UNAVAILABLE: the sandbox could not be planned; nothing is left behind. */
enum status build_prepare(struct build *build, const struct build_options *options,
                          struct error *err);
/* True: nvcc has ended, and the box may be killed. */
bool build_note(struct build *build, const struct box_event *event);

/*
 * Fills in verdict, reason, message, stage, flags and build_log of `result`: accepted where
 * build->library may be loaded, else compile_error, link_error, timeout or limit_exceeded;
 * internal_error where the compiler itself could not be run.
 */
void build_judge(struct build *build, const struct capture *output, struct result *result);
/* Names what is built by the hash of all that goes into it: sources, headers, arguments, compilers.
 */
void build_identify(const struct build_options *options, char name[static STORE_NAME_MAX]);
/* After the box is closed; a second time: nothing. */
void build_release(struct build *build);
