/* Row softmax and layer norm with block reductions. */
#include "../differential.cuh"

const int ROWS = 9, COLUMNS = 300;

__device__ float block_sum(float value)
{
    __shared__ float part[32];
    for (int step = 16; step > 0; step >>= 1) {
        value += __shfl_down_sync(~0u, value, step);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; warp++) {
        value += part[warp];
    }
    return value;
}

__global__ void softmax(const float *x, float *y)
{
    float sum = 0;
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x) {
        sum += expf(x[blockIdx.x * COLUMNS + i]);
    }
    sum = block_sum(sum);
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x) {
        y[blockIdx.x * COLUMNS + i] = expf(x[blockIdx.x * COLUMNS + i]) / sum;
    }
}

__global__ void layernorm(const float *x, float *y)
{
    float sum = 0, square = 0;
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x) {
        sum += x[blockIdx.x * COLUMNS + i];
    }
    float mean = block_sum(sum) / COLUMNS;
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x) {
        float d = x[blockIdx.x * COLUMNS + i] - mean;
        square += d * d;
    }
    float scale = rsqrtf(block_sum(square) / COLUMNS + 1e-5f);
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x) {
        y[blockIdx.x * COLUMNS + i] = (x[blockIdx.x * COLUMNS + i] - mean) * scale;
    }
}

static void test(void)
{
    array<float> x(ROWS * COLUMNS), y(ROWS * COLUMNS);
    x.fill(random_normal);
    softmax<<<ROWS, 128>>>(x.device, y.device);
    synchronise();
    emit_bounded("softmax", y, std::vector<double>(ROWS * COLUMNS, 1e-6));
    layernorm<<<ROWS, 128>>>(x.device, y.device);
    synchronise();
    emit_bounded("layernorm", y, std::vector<double>(ROWS * COLUMNS, 1e-5));
}
