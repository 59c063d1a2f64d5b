/*
 * attacks.h — the attacks of tests/attacks, and what the tests of them share.
 */
#pragma once

#include "common/job.h"
#include "common/result.h"
#include "worker/sandbox.h"

#include <stdbool.h>
#include <stddef.h>

enum { ATTACKS_MAX = 200, ATTACK_WORD_MAX = 64 };

struct attack {
    char name[ATTACK_WORD_MAX], outside[ATTACK_WORD_MAX];
    char verdict[ATTACK_WORD_MAX], reason[ATTACK_WORD_MAX];
};

/* Reads a table; aborts where it is malformed. Returns how many there are. */
int attacks_read(const char *file, struct attack attacks[static ATTACKS_MAX]);
/* A sealed memory file of the bytes of a file. */
int attacks_open(const char *file);
/* The concatenation of files; the caller frees it. */
char *attacks_join(const char *const *files, size_t count, size_t *size_bytes);

struct attacks_build {
    const char *source;
    size_t source_bytes;
    int64_t wall_ms;                    /* 0: a minute */
    const struct cgroup_limits *limits; /* NULL: those of the policy */
    /* NULL: nvcc is run; else the program `compiler` in its place, on this act and the library
     * `honest`. */
    const char *act;
    int compiler, honest;
};

/* Builds as a worker does, for task allreduce. `library` is a sealed memory file, or -1 where the
 * verdict is not accepted. */
void attacks_build(const struct attacks_build *attack, struct result *result, int *library);
/* Of jobs: eight bytes that stand nowhere else, so that a search for them means something. */
#define ATTACKS_SEED UINT64_C(0x50b5655762504b45)

/* Runs a library on one rank, of the simulator or of what PKB_TEST_DEVICE says. */
void attacks_run(int library, struct result *result);
/* By how many bytes this process has at most grown since the last call. */
int64_t attacks_growth(void);
