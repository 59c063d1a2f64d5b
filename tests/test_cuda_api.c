/*
 * One list of promises that holds on the simulator and on hardware: each case is a process (or two)
 * of this same program. PKB_TEST_DEVICE=cuda runs them on a real driver; otherwise each has a
 * pkb-simd of its own.
 */
#include "tests/cuda_cases.h"

const struct cuda_case *const case_lists[] = {
    cases_of_memory, cases_of_work,      cases_of_errors,      cases_of_sharing,
    cases_of_graphs, cases_of_multicast, cases_of_own_streams, NULL};
