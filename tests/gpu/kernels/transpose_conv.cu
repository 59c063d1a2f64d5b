/* Transposition through shared memory, and a 3 x 3 convolution with a halo. */
#include "../differential.cuh"

const int H = 37, W = 53;

__global__ void transpose(const short *x, short *y)
{
    __shared__ short tile[16][17];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < H && column < W) {
        tile[threadIdx.y][threadIdx.x] = x[row * W + column];
    }
    __syncthreads();
    column = blockIdx.y * 16 + threadIdx.x;
    row = blockIdx.x * 16 + threadIdx.y;
    if (row < W && column < H) {
        y[row * H + column] = tile[threadIdx.x][threadIdx.y];
    }
}

__constant__ float weights[9] = {1, -2, 1, 3, 5, -3, 0, 2, -1};

__global__ void convolve(const float *x, float *y)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= H || column >= W) {
        return;
    }
    float sum = 0;
    for (int i = -1; i <= 1; i++) {
        for (int j = -1; j <= 1; j++) {
            int r = row + i, c = column + j;
            if (r >= 0 && r < H && c >= 0 && c < W) {
                sum += weights[(i + 1) * 3 + j + 1] * x[r * W + c];
            }
        }
    }
    y[row * W + column] = sum;
}

static void test(void)
{
    dim3 grid((W + 15) / 16, (H + 15) / 16), block(16, 16);
    array<short> s(H * W), t(H * W);
    s.fill([] { return random_int(-30000, 30000); });
    transpose<<<grid, block>>>(s.device, t.device);
    synchronise();
    emit_exact("transposed", t);
    array<float> x(H * W), y(H * W);
    x.fill([] { return random_int(-99, 99); });
    convolve<<<grid, block>>>(x.device, y.device);
    synchronise();
    emit_exact("convolved", y);
}
