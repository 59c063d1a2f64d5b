/* A tiled product in fp32 with shared memory; integer operands exactly, normal ones within bounds.
 */
#include "../differential.cuh"

const int M = 67, N = 45, K = 83, TILE = 16;

__global__ void gemm(const float *a, const float *b, float *c)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;

    for (int k = 0; k < K; k += TILE) {
        int i = k + (int)threadIdx.x, j = k + (int)threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < M && i < K ? a[row * K + i] : 0;
        right[threadIdx.y][threadIdx.x] = j < K && column < N ? b[j * N + column] : 0;
        __syncthreads();
        for (int i2 = 0; i2 < TILE; i2++) {
            sum += left[threadIdx.y][i2] * right[i2][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < M && column < N) {
        c[row * N + column] = sum;
    }
}

static void test(void)
{
    array<float> a(M * K), b(K * N), c(M * N);
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), block(TILE, TILE);
    a.fill([] { return random_int(-9, 9); });
    b.fill([] { return random_int(-9, 9); });
    gemm<<<grid, block>>>(a.device, b.device, c.device);
    synchronise();
    emit_exact("integers", c);

    a.fill(random_normal);
    b.fill(random_normal);
    gemm<<<grid, block>>>(a.device, b.device, c.device);
    synchronise();
    std::vector<double> bound(M * N);
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++) {
                sum += fabs((double)a.host[m * K + k] * b.host[k * N + n]);
            }
            bound[m * N + n] = 2 * ldexp(sum, -22);
        }
    }
    emit_bounded("normal", c, bound);
}
