/*
 * own.cu — times SUBMISSION by itself, without a judge: the same cold caches, the same fresh
 * inputs, one call between two events, and the median of 100 after 50. Prints microseconds.
 */
#include SUBMISSION

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const int64_t ROWS = 1024;
static const int64_t COLUMNS = 1024;
enum { WARM = 50, TIMED = 100 };

static void must(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "own: %s\n", cudaGetErrorName(error));
        exit(1);
    }
}

/* Any numbers do that are not the same each time. */
static unsigned next_word(void)
{
    static unsigned word = 1;

    word = word * 1664525u + 1013904223u;
    return word;
}

/* Gives the host time to put everything behind it onto the stream. */
static __global__ void delay(long long clocks)
{
    long long start = clock64();

    while (clock64() - start < clocks) {
    }
}

static __global__ void unmask(uint4 *words, size_t count, unsigned key)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x) {
        uint4 word = words[i];
        words[i] = make_uint4(word.x ^ key, word.y ^ key, word.z ^ key, word.w ^ key);
    }
}

int main(void)
{
    size_t bytes = ROWS * COLUMNS * sizeof(pkb_t);
    int cache_bytes = 0;
    char *inputs[PKB_SLOTS];
    char *outputs[PKB_SLOTS];
    void *flush = NULL;
    cudaEvent_t start;
    cudaEvent_t end;
    struct pkb_ctx ctx = {};
    struct pkb_params params = {};
    std::vector<float> times;
    std::vector<unsigned> image(bytes / sizeof(unsigned));

    params.M = ROWS;
    params.N = COLUMNS;
    ctx.abi = PKB_ABI;
    ctx.world = 1;
    must(cudaStreamCreateWithFlags(&ctx.stream, cudaStreamNonBlocking));
    must(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, 0));
    must(cudaMalloc(&flush, 2 * (size_t)cache_bytes));
    must(cudaEventCreate(&start));
    must(cudaEventCreate(&end));
    for (int slot = 0; slot < PKB_SLOTS; slot++) {
        must(cudaMalloc((void **)&inputs[slot], bytes));
        must(cudaMalloc((void **)&outputs[slot], bytes));
    }
    for (int i = 0; i < WARM + TIMED; i++) {
        int slot = i % PKB_SLOTS;
        struct pkb_inputs in = {};
        struct pkb_outputs out = {};
        float elapsed_ms = 0;
        for (size_t word = 0; word < image.size(); word++) {
            image[word] = next_word();
        }
        in.x = (decltype(in.x))inputs[slot];
        out.y = (decltype(out.y))outputs[slot];
        must(
            cudaMemcpyAsync(inputs[slot], image.data(), bytes, cudaMemcpyHostToDevice, ctx.stream));
        must(cudaMemsetAsync(outputs[slot], 1 + i, bytes, ctx.stream));
        must(cudaMemsetAsync(flush, 0, 2 * (size_t)cache_bytes, ctx.stream));
        must(cudaStreamSynchronize(ctx.stream));
        delay<<<1, 1, 0, ctx.stream>>>(400000);
        unmask<<<264, 256, 0, ctx.stream>>>((uint4 *)inputs[slot], bytes / sizeof(uint4),
                                            next_word());
        must(cudaEventRecord(start, ctx.stream));
        must((cudaError_t)pkb_run(&ctx, &params, &in, &out));
        must(cudaEventRecord(end, ctx.stream));
        must(cudaStreamSynchronize(ctx.stream));
        must(cudaEventElapsedTime(&elapsed_ms, start, end));
        if (i >= WARM) {
            times.push_back(elapsed_ms * 1000);
        }
    }
    std::sort(times.begin(), times.end());
    printf("%.3f\n", (times[TIMED / 2 - 1] + times[TIMED / 2]) / 2);
    return 0;
}
