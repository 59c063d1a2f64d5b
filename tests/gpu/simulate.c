/*
 * simulate.c — runs a CUDA program of one process on one simulated GPU: `simulate PROGRAM ARG...`.
 *
 * For the differential test: the same binary then runs on a real GPU without this. BUILD names the
 * folder with pkb-simd. Exits with the program's status; what the simulator reports of it goes to
 * stderr when that is not 0.
 */
#include "tests/sim_session.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sim_session session = {0};
    struct buffer report = {0};
    int status = 0;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: simulate PROGRAM ARG...\n");
        return 2;
    }
    sim_start(&session,
              &(struct sim_settings){
                  .ranks = 1, .image = argv[1], .seed = 1, .fuel = UINT64_C(50000000000)});
    sim_spawn(&session, 0, argv + 1, STDERR_FILENO);
    (void)sim_finish(&session, &status, &report);
    bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_well && report.data != NULL) {
        (void)fputs(report.data, stderr);
    }
    buffer_release(&report);
    return is_well ? 0 : 1;
}
