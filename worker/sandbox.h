/*
 * sandbox.h — what each kind of program may see, use and reach: the policies, as arguments of
 * bubblewrap, a user, a filter of system calls and a cgroup.
 *
 * A node is prepared once. sandbox_open plans one sandbox in a slot of the node; the caller adds
 * files, gives it to the programs of a box, and closes it after the box. Paths inside are in
 * sandbox->inside. Where the layer `namespaces` is waived there is no other view: files then lie in
 * a directory of their own below the work directory, which sandbox_close removes.
 */
#pragma once

#include "common/job.h"
#include "worker/cgroup.h"
#include "worker/filter.h"
#include "worker/layers.h"

#include <limits.h>
#include <stdbool.h>

enum sandbox_policy {
    SANDBOX_BUILD, /* nvcc: the toolchain, its source, /out; nothing else */
    SANDBOX_RANKS, /* all ranks of a job: libraries, the submission, GPUs */
    SANDBOX_SIMD,  /* the simulator, which reads hostile PTX */
    SANDBOX_JUDGE, /* ours and trusted: only a user and a cgroup of its own */
    SANDBOX_POLICIES,
};

enum {
    SANDBOX_WORDS_MAX = 160,
    SANDBOX_FDS_MAX = 16,
    SANDBOX_SLOTS_MAX = 256,
    /* Four users a slot, from here on, unless the node says otherwise: past those that systemd
     * gives to services (61184 to 65519), before those of subordinate users (100000). */
    SANDBOX_UID_BASE = 66000,
};

const char *sandbox_policy_name(enum sandbox_policy policy);

struct sandbox_node {
    const char *bwrap, *bin_dir, *sim_dir, *nccl_dir, *cuda_home, *work_dir;
    uid_t uid_base;
    unsigned waived; /* bits of enum layer */
    int filters[FILTERS];
};

struct sandbox_options {
    enum sandbox_policy policy;
    int slot;
    enum device_kind device; /* of ranks */
    int world;
    const struct cgroup_limits *limits; /* NULL: the policy's */
    bool has_probe;                     /* pkb-probe is there too */
};

/* As the programs see them. */
struct sandbox_paths {
    char init[PATH_MAX], rank[PATH_MAX], simd[PATH_MAX], probe[PATH_MAX], compile[PATH_MAX];
    char sim[PATH_MAX], nccl[PATH_MAX], cuda[PATH_MAX];
    char source[PATH_MAX], out[PATH_MAX], tmp[PATH_MAX]; /* directories */
};

struct sandbox {
    const struct sandbox_node *node;
    struct sandbox_options options;
    struct sandbox_paths inside;
    struct cgroup *group; /* NULL: waived */
    uid_t uid;            /* 0: waived */
    const char *init;     /* NULL: the program is started without pkb-init */
    bool is_filtered;
    char *words[SANDBOX_WORDS_MAX]; /* bubblewrap's, up to its "--"; none: waived */
    int word_count;
    int fds[SANDBOX_FDS_MAX]; /* that bubblewrap reads; closed by sandbox_close */
    int fd_count;
    char directory[PATH_MAX]; /* "": none */
};

/* Compiles the filters. The strings stay the caller's. */
enum status sandbox_node_init(struct sandbox_node *node, struct error *err);
void sandbox_node_release(struct sandbox_node *node);

enum status sandbox_open(struct sandbox **sandbox, const struct sandbox_node *node,
                         const struct sandbox_options *options, struct error *err);
/* The bytes of a memory file become the read-only file `name` in inside.source. */
enum status sandbox_add_file(struct sandbox *sandbox, int fd, const char *name, struct error *err);
/* Opens inside.out of a sandbox whose first process is `pid`; it stays readable after their end. */
enum status sandbox_open_out(const struct sandbox *sandbox, pid_t pid, int *directory,
                             struct error *err);
/* Is one of the places full to which its programs may write? */
bool sandbox_is_full(const struct sandbox *sandbox, pid_t pid);
/* NULL: nothing. */
void sandbox_close(struct sandbox *sandbox);
