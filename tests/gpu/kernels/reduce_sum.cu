/* Sum by warp shuffles and one atomic a block: integers exactly, floats within the chain's error.
 */
#include "../differential.cuh"

template <typename T> __global__ void reduce(const T *x, T *sum, int n)
{
    __shared__ T part[32];
    T value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        value += x[i];
    }
    for (int step = 16; step > 0; step >>= 1) {
        value += __shfl_down_sync(~0u, value, step);
    }
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = value;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : (T)0;
        for (int step = 16; step > 0; step >>= 1) {
            value += __shfl_xor_sync(~0u, value, step);
        }
        if (threadIdx.x == 0) {
            atomicAdd(sum, value);
        }
    }
}

static void test(void)
{
    const int n = 10007;
    array<int> x(n), sum(1);
    x.fill([] { return random_int(-1000, 1000); });
    sum.fill([] { return 0; });
    reduce<<<7, 256>>>(x.device, sum.device, n);
    synchronise();
    emit_exact("int", sum);

    array<float> f(n), total(1);
    f.fill(random_normal);
    total.fill([] { return 0; });
    reduce<<<7, 256>>>(f.device, total.device, n);
    synchronise();
    double magnitude = 0;
    for (float value : f.host) {
        magnitude += fabs(value);
    }
    emit_bounded("float", total, {4 * ldexp(magnitude, -22)});

    array<double> d(n), wide(1);
    d.fill([] { return random_int(-1000, 1000); });
    wide.fill([] { return 0; });
    reduce<<<7, 256>>>(d.device, wide.device, n);
    synchronise();
    emit_exact("double", wide);
}
