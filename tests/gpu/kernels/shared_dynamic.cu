/* Dynamic shared memory beyond 48 KiB, volatile warp-synchronous sums, barriers of parts of a
 * block. */
#include "../differential.cuh"

__global__ void blocks(const int *x, int *y, int n)
{
    extern __shared__ int s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        s[i] = x[(i + blockIdx.x) % n];
    }
    __syncthreads();
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += s[n - 1 - i] * (i % 7);
    }
    __syncthreads();
    s[threadIdx.x] = sum;
    if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        sum += s[threadIdx.x ^ 33];
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        sum -= s[64 + (threadIdx.x ^ 17) % 64];
    }
    int count = __syncthreads_count(sum % 3 == 0);
    int any = __syncthreads_or(sum == 12345), all = __syncthreads_and(sum != 54321);
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum + count * 1000000 + any * 7 + all * 3;
}

static void test(void)
{
    const int n = 25000;
    array<int> x(n), y(3 * 128);
    x.fill([] { return random_int(-50, 50); });
    CHECK(cudaFuncSetAttribute(blocks, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4));
    blocks<<<3, 128, n * sizeof(int)>>>(x.device, y.device, n);
    synchronise();
    emit_exact("y", y);
}
