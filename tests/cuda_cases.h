/*
 * cuda_cases.h — what test_cuda_api promises of CUDA, case by case, on the simulator and on a GPU.
 *
 * A case runs in a process of its own (several, where it has several ranks), so that a fault in it
 * harms no other. It ends with exit(0) by returning, or says what is wrong and exits with 1.
 */
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

struct cuda_case {
    const char *name;
    int ranks;
    void (*run)(int rank);
    /* On the simulator only: what pkb-simd's report must contain, NULL: anything; and how often the
     * case runs, with the machine loaded, and the report must be the same. */
    const char *report;
    const char *absent; /* what the report must not contain; NULL: nothing */
    int repeats;
    uint64_t fuel;
    int exit_status; /* of every rank */
};

/* A row of a list: the function's name is what it promises. More fields may follow. */
#define CASE(function, rank_count, ...)                                                            \
    {                                                                                              \
        .name = #function, .ranks = (rank_count), .run = (function), __VA_ARGS__                   \
    }

/* The lists of a test program, ending with NULL; each list ends with {0}. */
extern const struct cuda_case *const case_lists[];
extern const struct cuda_case cases_of_memory[];
extern const struct cuda_case cases_of_work[];
extern const struct cuda_case cases_of_errors[];
extern const struct cuda_case cases_of_sharing[];
extern const struct cuda_case cases_of_graphs[];
extern const struct cuda_case cases_of_multicast[];
extern const struct cuda_case cases_of_own_streams[];
extern const struct cuda_case cases_of_nccl[]; /* of test_libraries */
extern const struct cuda_case cases_of_blas[];

/* A socket to the other rank of a case with two. */
extern int case_peer;
void case_send(const void *data, size_t size_bytes, int fd); /* fd -1: none */
void case_receive(void *data, size_t size_bytes, int *fd); /* polls the default stream meanwhile */

/* Memory of the driver's virtual memory management: rank 0 makes it; rank 1 gets it with this
 * access at an address of its own. */
enum { CASE_SHARED_BYTES = 2 << 20 };
CUmemAllocationProp case_properties(void);
void case_allow(CUdeviceptr address, CUmemAccess_flags flags);
CUdeviceptr case_share(int rank, CUmemAccess_flags of_importer);
/* Both ranks have come here. */
void case_meet(void);

/* Both evaluate to an integer; what is not as expected ends the process. */
#define EXPECT(got, expected) case_expect(__FILE__, __LINE__, #got, (long long)(got), (expected))
#define GOOD(call) EXPECT(call, 0)
void case_expect(const char *file, int line, const char *text, long long got, long long expected);

/* ---- kernels of cuda_cases.cu ---- */
#ifdef __cplusplus
extern "C" {
#endif
struct big_argument {
    unsigned char bytes[4000];
};
cudaError_t launch_add(const float *a, const float *b, float *sum, int count, cudaStream_t stream);
cudaError_t launch_fill(int *to, int value, int count, cudaStream_t stream);
cudaError_t launch_add_one(int *word, cudaStream_t stream);
cudaError_t launch_count_one(int *word, cudaStream_t stream); /* by an atomic */
/* Counts to `turns`, then stores `value`: later than anything short. */
cudaError_t launch_slow_store(int *to, int value, int turns, cudaStream_t stream);
/* Waits until *flag is `value`, then stores it to *to. */
cudaError_t launch_wait_store(volatile int *flag, int value, int *to, cudaStream_t stream);
cudaError_t launch_every_size(char c, short s, int i, long long l, float f, double d, double *sum,
                              cudaStream_t stream);
cudaError_t launch_big(struct big_argument big, unsigned int *sum, cudaStream_t stream);
cudaError_t launch_dynamic(int *to, size_t shared_bytes, cudaStream_t stream);
cudaError_t launch_bounded(int *to, int threads);
cudaError_t launch_shape(dim3 grid, dim3 block, size_t shared_bytes);
cudaError_t launch_load(const int *from, int *to, cudaStream_t stream);
cudaError_t launch_misaligned(char *to);
cudaError_t launch_trap(void);
cudaError_t launch_print(int value);
cudaError_t launch_symbols(int *to, cudaStream_t stream); /* 16 counters, then 4 constants */
/* By a multicast address: a word to all devices, added to that of each; the sum of all. */
cudaError_t launch_multimem_store(int *to, int value, cudaStream_t stream);
cudaError_t launch_multimem_add(int *to, int value, cudaStream_t stream);
cudaError_t launch_multimem_sum(const int *from, int *to, cudaStream_t stream);
/* Counts to `turns`, then notes `rank` at words[1 + words[0]++]. */
cudaError_t launch_ticket(int *words, int rank, int turns, cudaStream_t stream);
cudaError_t launch_cooperative(int blocks, int *to);
cudaError_t set_dynamic_shared(int bytes);
const void *symbol_counters(void);  /* int[16], {1, 2, 3, 0...} at first */
const void *symbol_constants(void); /* int[4] */
const void *kernel_bounded(void);
const void *kernel_nothing(void);
const void *kernel_add_one(void); /* (int *word) */
#ifdef __cplusplus
}
#endif
