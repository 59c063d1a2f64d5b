/* Bitonic sort of keys with values in shared memory, and the k best of a row by repeated maxima. */
#include "../differential.cuh"

const int N = 512, K = 11;

__global__ void sort(const unsigned *keys, unsigned *sorted)
{
    __shared__ unsigned s[N];
    s[threadIdx.x] = keys[blockIdx.x * N + threadIdx.x];
    for (unsigned size = 2; size <= N; size *= 2) {
        for (unsigned stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            unsigned other = threadIdx.x ^ stride;
            if (other > threadIdx.x) {
                bool up = (threadIdx.x & size) == 0;
                unsigned a = s[threadIdx.x], b = s[other];
                if ((a > b) == up) {
                    s[threadIdx.x] = b;
                    s[other] = a;
                }
            }
        }
    }
    __syncthreads();
    sorted[blockIdx.x * N + threadIdx.x] = s[threadIdx.x];
}

__global__ void topk(const float *x, float *best, int *index)
{
    __shared__ unsigned long long winner;
    float value = x[blockIdx.x * N + threadIdx.x];
    bool taken = false;

    for (int k = 0; k < K; k++) {
        if (threadIdx.x == 0) {
            winner = 0;
        }
        __syncthreads();
        unsigned bits = __float_as_uint(value);
        unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        unsigned long long key = (unsigned long long)ordered << 32 | (N - 1 - threadIdx.x);
        if (!taken) {
            atomicMax(&winner, key);
        }
        __syncthreads();
        if (!taken && winner == key) {
            taken = true;
            best[blockIdx.x * K + k] = value;
            index[blockIdx.x * K + k] = (int)threadIdx.x;
        }
        __syncthreads();
    }
}

static void test(void)
{
    array<unsigned> keys(3 * N), sorted(3 * N);
    keys.fill(random_word);
    sort<<<3, N>>>(keys.device, sorted.device);
    synchronise();
    emit_exact("sorted", sorted);

    array<float> x(3 * N), best(3 * K);
    array<int> index(3 * K);
    x.fill([] { return (float)random_int(-40, 40); });
    topk<<<3, N>>>(x.device, best.device, index.device);
    synchronise();
    emit_exact("best", best);
    emit_exact("index", index);
}
