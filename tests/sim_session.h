/*
 * sim_session.h — a pkb-simd for a test, and the processes that are its clients.
 *
 * sim_start, sim_spawn once for each client, sim_finish. Every failure of the machinery itself ends
 * the test program.
 */
#pragma once

#include "common/buffer.h"

#include <stdint.h>
#include <sys/types.h>

enum { SIM_CLIENTS_MAX = 9 };
struct sim_session {
    pid_t simd;
    pid_t clients[SIM_CLIENTS_MAX];
    int client_fds[SIM_CLIENTS_MAX];
    int client_count;
    int report_fd;
};

struct sim_settings {
    int ranks;
    const char *image; /* whose kernels may run, beside those of our libnccl and libcublas */
    uint64_t seed, fuel;
    uint64_t memory_bytes; /* 0: the default */
};

void sim_start(struct sim_session *session, const struct sim_settings *settings);
/* Runs argv as client `index` with stdout and stderr going to `output_fd`. */
void sim_spawn(struct sim_session *session, int index, char *const argv[], int output_fd);
/* Waits for the end of all. `statuses` are those of the clients as of waitpid; the report's lines
 * go to `report`. Returns pkb-simd's own status. */
int sim_finish(struct sim_session *session, int *statuses, struct buffer *report);
