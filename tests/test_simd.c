/* What pkb-simd promises beyond CUDA: reports, the proof of deadlock, and that load changes
 * nothing. */
#include "tests/cuda_cases.h"

extern const struct cuda_case cases_of_reports[];
extern const struct cuda_case cases_of_hostility[];
extern const struct cuda_case cases_of_streams[];

const struct cuda_case *const case_lists[] = {cases_of_reports, cases_of_hostility,
                                              cases_of_streams, NULL};
