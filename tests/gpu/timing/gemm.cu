/*
 * gemm.cu — times the product of BASELINE, by cublasGemmEx, against the best that cublasLt
 * proposes.
 *
 *     gemm M N K [M N K]...
 *
 * A row for each shape: m, n, k; the baseline's median; that of the first proposal; the best one's,
 * and how many there were; microseconds, with cold caches, one call between two events. Exit code 1
 * where the baseline is more than 10 % slower than the best.
 */
#include BASELINE

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <vector>

enum { WARM = 5, TIMED = 60, PROPOSALS = 20, WORKSPACE_BYTES = 32 << 20 };

static void must(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "gemm: %s: %d\n", what, error);
        exit(2);
    }
}

/* Normal-looking numbers: zeros would cost less power. */
static __global__ void fill(pkb_t *to, int64_t count)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        unsigned word = (unsigned)i * 2654435761u;
        to[i] = (pkb_t)((float)(word >> 16) / 32768 - 1);
    }
}

/* Gives the host time to put everything behind it onto the stream. */
static __global__ void delay(long long clocks)
{
    long long start = clock64();

    while (clock64() - start < clocks) {
    }
}

struct bench {
    struct pkb_ctx ctx;
    int64_t m, n, k;
    pkb_t *a, *b, *c;
    void *workspace, *flush;
    size_t flush_bytes;
    cudaEvent_t start, end;
    cublasLtHandle_t blas;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, result;
};

/* The median time of `call`; 0 where it fails. */
template <typename Call> static float time_call(struct bench *bench, Call call)
{
    std::vector<float> times;
    cudaStream_t stream = bench->ctx.stream;

    for (int i = 0; i < WARM + TIMED; i++) {
        float elapsed_ms = 0;
        must(cudaMemsetAsync(bench->flush, i, bench->flush_bytes, stream), "memset");
        delay<<<1, 1, 0, stream>>>(100000);
        must(cudaEventRecord(bench->start, stream), "event");
        if (call() != 0) {
            return 0;
        }
        must(cudaEventRecord(bench->end, stream), "event");
        must(cudaStreamSynchronize(stream), "synchronize");
        must(cudaEventElapsedTime(&elapsed_ms, bench->start, bench->end), "elapsed");
        if (i >= WARM) {
            times.push_back(elapsed_ms * 1000);
        }
    }
    std::sort(times.begin(), times.end());
    return (times[TIMED / 2 - 1] + times[TIMED / 2]) / 2;
}

/* To cuBLAS a row-major matrix is a transposed one; in task 011 the result is column-major. */
static void describe(struct bench *bench)
{
    int32_t transposed = CUBLAS_OP_T;
    cudaDataType type = PKB_CUDA_T;
    uint64_t m = (uint64_t)bench->m;
    uint64_t n = (uint64_t)bench->n;
    uint64_t k = (uint64_t)bench->k;

    must(cublasLtMatmulDescCreate(&bench->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe");
    if (IS_TRANSPOSED) {
        must(cublasLtMatmulDescSetAttribute(bench->operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                            &transposed, sizeof(transposed)),
             "transpose");
        must(cublasLtMatrixLayoutCreate(&bench->left, type, m, k, (int64_t)m), "layout");
        must(cublasLtMatrixLayoutCreate(&bench->right, type, n, k, (int64_t)n), "layout");
        must(cublasLtMatrixLayoutCreate(&bench->result, type, m, n, (int64_t)m), "layout");
    } else {
        must(cublasLtMatrixLayoutCreate(&bench->left, type, n, k, (int64_t)n), "layout");
        must(cublasLtMatrixLayoutCreate(&bench->right, type, k, m, (int64_t)k), "layout");
        must(cublasLtMatrixLayoutCreate(&bench->result, type, n, m, (int64_t)n), "layout");
    }
}

static int propose(struct bench *bench, cublasLtMatmulHeuristicResult_t *proposals)
{
    cublasLtMatmulPreference_t preference;
    size_t workspace_bytes = WORKSPACE_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int count = 0;

    must(cublasLtMatmulPreferenceCreate(&preference), "preference");
    must(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace_bytes, sizeof(workspace_bytes)),
         "preference");
    must(cublasLtMatmulPreferenceSetAttribute(
             preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)),
         "preference");
    must(cublasLtMatmulAlgoGetHeuristic(bench->blas, bench->operation, bench->left, bench->right,
                                        bench->result, bench->result, preference, PROPOSALS,
                                        proposals, &count),
         "heuristic");
    must(cublasLtMatmulPreferenceDestroy(preference), "preference");
    return count;
}

static float time_proposal(struct bench *bench, const cublasLtMatmulAlgo_t *algorithm)
{
    const float one = 1;
    const float zero = 0;
    const pkb_t *left = IS_TRANSPOSED ? bench->a : bench->b;
    const pkb_t *right = IS_TRANSPOSED ? bench->b : bench->a;

    return time_call(bench, [&]() {
        return cublasLtMatmul(bench->blas, bench->operation, &one, left, bench->left, right,
                              bench->right, &zero, bench->c, bench->result, bench->c, bench->result,
                              algorithm, bench->workspace, WORKSPACE_BYTES, bench->ctx.stream);
    });
}

/* Both are timed twice, in turn, and the better time counts: the clock may change meanwhile. */
static bool compare(struct bench *bench)
{
    struct state *state = (struct state *)bench->ctx.user;
    cublasLtMatmulHeuristicResult_t proposals[PROPOSALS];
    float first = 0;
    float best = 1e30f;
    float own = 1e30f;
    int best_index = 0;

    describe(bench);
    int count = propose(bench, proposals);
    for (int i = 0; i < count; i++) {
        float time = time_proposal(bench, &proposals[i].algo);
        first = i == 0 ? time : first;
        if (time > 0 && time < best) {
            best = time;
            best_index = i;
        }
    }
    for (int i = 0; i < 2; i++) {
        float time = time_call(bench, [&]() {
            return multiply(&bench->ctx, state->blas, bench->a, bench->b, bench->c, bench->m,
                            bench->n, bench->k);
        });
        must(time == 0, "the baseline's product");
        own = std::min(own, time);
        best = std::min(best, time_proposal(bench, &proposals[best_index].algo));
    }
    bool is_near = own <= 1.1f * best;
    printf("%-6s %5d %5d %5d  baseline %7.2f  first %7.2f  best %7.2f (%d of %d)  %+.1f %%\n",
           is_near ? "ok" : "FAILED", (int)bench->m, (int)bench->n, (int)bench->k, own, first, best,
           best_index + 1, count, (own / best - 1) * 100);
    must(cublasLtMatrixLayoutDestroy(bench->left), "layout");
    must(cublasLtMatrixLayoutDestroy(bench->right), "layout");
    must(cublasLtMatrixLayoutDestroy(bench->result), "layout");
    must(cublasLtMatmulDescDestroy(bench->operation), "describe");
    return is_near;
}

static pkb_t *make_matrix(int64_t rows, int64_t columns)
{
    pkb_t *matrix = NULL;

    must(cudaMalloc(&matrix, (size_t)(rows * columns) * sizeof(pkb_t)), "malloc");
    fill<<<264, 256>>>(matrix, rows * columns);
    return matrix;
}

int main(int argc, char **argv)
{
    struct bench bench = {};
    struct pkb_params params = {};
    bool are_near = true;
    int cache_bytes = 0;

    must(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, 0), "cache");
    bench.ctx.abi = PKB_ABI;
    bench.ctx.world = 1;
    bench.flush_bytes = 2 * (size_t)cache_bytes;
    must(cudaStreamCreateWithFlags(&bench.ctx.stream, cudaStreamNonBlocking), "stream");
    must(cudaMalloc(&bench.flush, bench.flush_bytes), "malloc");
    must(cudaMalloc(&bench.workspace, WORKSPACE_BYTES), "malloc");
    must(cudaEventCreate(&bench.start), "event");
    must(cudaEventCreate(&bench.end), "event");
    must(cublasLtCreate(&bench.blas), "cublasLt");
    must(pkb_setup(&bench.ctx, &params), "the baseline's setup");
    for (int i = 1; i + 2 < argc; i += 3) {
        bench.m = strtol(argv[i], NULL, 10);
        bench.n = strtol(argv[i + 1], NULL, 10);
        bench.k = strtol(argv[i + 2], NULL, 10);
        bench.a = make_matrix(bench.m, bench.k);
        bench.b = make_matrix(bench.k, bench.n);
        bench.c = make_matrix(bench.m, bench.n);
        are_near &= compare(&bench);
        must(cudaFree(bench.a), "free");
        must(cudaFree(bench.b), "free");
        must(cudaFree(bench.c), "free");
    }
    return are_near ? 0 : 1;
}
