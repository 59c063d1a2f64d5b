/*
 * What our libnccl and libcublas promise, case by case, as test_cuda_api does for CUDA itself: on
 * the simulator, and with PKB_TEST_DEVICE=cuda on a GPU (there with the real cuBLAS).
 */
#include "tests/cuda_cases.h"

const struct cuda_case *const case_lists[] = {cases_of_nccl, cases_of_blas, NULL};
