/* Symmetric int8 quantisation of rows, dp4a products of the codes, dequantised sums. */
#include "../differential.cuh"

const int ROWS = 24, K = 96;

__global__ void quantise(const float *x, signed char *codes, float *scale)
{
    float largest = 0;
    for (int i = threadIdx.x; i < K; i += 32) {
        largest = fmaxf(largest, fabsf(x[blockIdx.x * K + i]));
    }
    for (int step = 16; step > 0; step >>= 1) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    }
    for (int i = threadIdx.x; i < K; i += 32) {
        codes[blockIdx.x * K + i] =
            (signed char)__float2int_rn(x[blockIdx.x * K + i] * (127.0f / largest));
    }
    scale[blockIdx.x] = largest / 127.0f;
}

__global__ void product(const signed char *a, const float *scale, int *sums, float *y)
{
    int row = blockIdx.x, column = threadIdx.x, sum = 0;
    for (int k = 0; k < K; k += 4) {
        sum = __dp4a(*(const int *)(a + row * K + k), *(const int *)(a + column * K + k), sum);
    }
    sums[row * ROWS + column] = sum;
    y[row * ROWS + column] = (float)sum * scale[row] * scale[column];
}

static void test(void)
{
    array<float> x(ROWS * K), scale(ROWS), y(ROWS * ROWS);
    array<signed char> codes(ROWS * K);
    array<int> sums(ROWS * ROWS);
    x.fill(random_normal);
    quantise<<<ROWS, 32>>>(x.device, codes.device, scale.device);
    product<<<ROWS, ROWS>>>(codes.device, scale.device, sums.device, y.device);
    synchronise();
    emit_exact("codes", codes);
    emit_exact("sums", sums);
    emit_exact("y", y);
}
