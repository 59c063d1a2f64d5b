/*
 * kernels.cu — what `make bench` runs on the simulator: ordinary kernels of different kinds.
 *
 * All but the last two have one signature: they read `in`, write `out`, both of `count` words, and
 * work `rounds` times on them.
 */
#include <cuda_bf16.h>
#include <mma.h>
#include <stdint.h>

#define KERNEL extern "C" __global__ void
#define FIRST (blockIdx.x * blockDim.x + threadIdx.x)
#define STEP (gridDim.x * blockDim.x)

/* y = a x + y, a word at a time. */
KERNEL saxpy(const float *in, float *out, int count, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int i = FIRST; i < count; i += STEP) {
            out[i] = 2.5f * in[i] + out[i];
        }
    }
}

/* Copies 16 bytes at a time. */
KERNEL copy128(const uint4 *in, uint4 *out, int count, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int i = FIRST; i < count / 4; i += STEP) {
            out[i] = in[i];
        }
    }
}

/* A polynomial of pairs of bf16. */
KERNEL bf16x2(const __nv_bfloat162 *in, __nv_bfloat162 *out, int count, int rounds)
{
    for (int i = FIRST; i < count; i += STEP) {
        __nv_bfloat162 x = in[i], y = out[i];
        for (int round = 0; round < rounds; round++) {
            y = __hfma2(x, y, __float2bfloat162_rn(0.25f));
            y = __hadd2(__hmul2(y, y), __hsub2(x, y));
            y = __hmax2(__hmin2(y, __float2bfloat162_rn(2)), __float2bfloat162_rn(-2));
        }
        out[i] = y;
    }
}

/* Sums in f32 of bf16 that are read 16 bytes at a time, as an all-reduce does. */
KERNEL bf16sum(const uint4 *in, uint4 *out, int count, int rounds)
{
    union chunk {
        uint4 bits;
        __nv_bfloat16 value[8];
    };
    for (int i = FIRST; i < count / 4; i += STEP) {
        float sum[8] = {0};
        union chunk chunk;
        for (int round = 0; round < rounds; round++) {
            chunk.bits = in[(i + round * 256) & (count / 4 - 1)];
            for (int k = 0; k < 8; k++) {
                sum[k] += (float)chunk.value[k];
            }
        }
        for (int k = 0; k < 8; k++) {
            chunk.value[k] = (__nv_bfloat16)sum[k];
        }
        out[i] = chunk.bits;
    }
}

/* Integers only. */
KERNEL hash(const uint32_t *in, uint32_t *out, int count, int rounds)
{
    for (int i = FIRST; i < count; i += STEP) {
        uint32_t x = in[i];
        for (int round = 0; round < rounds; round++) {
            x ^= x >> 16;
            x *= 0x7feb352d;
            x ^= x >> 15;
            x *= 0x846ca68b;
            x = (x << 7 | x >> 25) + round;
        }
        out[i] = x;
    }
}

/* Each lane takes its own way through a loop, and for its own number of turns. */
KERNEL diverge(const uint32_t *in, uint32_t *out, int count, int rounds)
{
    for (int i = FIRST; i < count; i += STEP) {
        uint32_t x = in[i] | 1;
        int turns = rounds + (x & 15);
        for (int turn = 0; turn < turns; turn++) {
            if (x & 1) {
                x = x * 3 + 1;
                for (int k = x & 3; k > 0; k--) {
                    x ^= x << 5;
                }
            } else {
                x = (x >> 1) + in[x & 1023];
            }
        }
        out[i] = x;
    }
}

/* A sum of each block, in shared memory and by shuffles. */
KERNEL reduce(const float *in, float *out, int count, int rounds)
{
    __shared__ float part[256];

    for (int round = 0; round < rounds; round++) {
        float sum = 0;
        for (int i = FIRST; i < count; i += STEP) {
            sum += in[i];
        }
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int half = 128; half >= 32; half /= 2) {
            if (threadIdx.x < half) {
                part[threadIdx.x] += part[threadIdx.x + half];
            }
            __syncthreads();
        }
        if (threadIdx.x < 32) {
            sum = part[threadIdx.x];
            for (int offset = 16; offset > 0; offset /= 2) {
                sum += __shfl_down_sync(~0u, sum, offset);
            }
            if (threadIdx.x == 0) {
                out[blockIdx.x] = sum;
            }
        }
        __syncthreads();
    }
}

/* Tiles of 16 x 16 in shared memory; `rounds` is the side of the matrices. */
KERNEL gemm(const float *in, float *out, int count, int rounds)
{
    __shared__ float left[16][16], right[16][16];
    int side = rounds;
    int column = threadIdx.x % 16, line = threadIdx.x / 16;
    int tiles = side / 16;
    int row = blockIdx.x / tiles * 16 + line, col = blockIdx.x % tiles * 16 + column;
    float sum = 0;

    for (int tile = 0; tile < tiles; tile++) {
        left[line][column] = in[row * side + tile * 16 + column];
        right[line][column] = in[(tile * 16 + line) * side + col];
        __syncthreads();
        for (int k = 0; k < 16; k++) {
            sum += left[line][k] * right[k][column];
        }
        __syncthreads();
    }
    if (row * side + col < count) {
        out[row * side + col] = sum;
    }
}

/* Words from anywhere, and a histogram by atomics in shared memory. */
KERNEL scatter(const uint32_t *in, uint32_t *out, int count, int rounds)
{
    __shared__ uint32_t bins[256];

    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = FIRST; i < count; i += STEP) {
        uint32_t x = in[i];
        for (int round = 0; round < rounds; round++) {
            x = in[(x * 2654435761u + round) & (count - 1)];
            atomicAdd(&bins[x & 255], 1);
        }
        out[x & (count - 1)] = x;
    }
    __syncthreads();
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

/* c = a b of side 512 by tensor cores, a warp for each 32 x 32 of c. */
KERNEL wmma512(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c)
{
    using namespace nvcuda;
    const int side = 512;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left[2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> right[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
    int warp = FIRST / 32;
    int row = warp / (side / 32) * 32, column = warp % (side / 32) * 32;

    for (int i = 0; i < 4; i++) {
        wmma::fill_fragment(sum[i / 2][i % 2], 0.0f);
    }
    for (int k = 0; k < side; k += 16) {
        for (int i = 0; i < 2; i++) {
            wmma::load_matrix_sync(left[i], a + (row + i * 16) * side + k, side);
            wmma::load_matrix_sync(right[i], b + k * side + column + i * 16, side);
        }
        for (int i = 0; i < 4; i++) {
            wmma::mma_sync(sum[i / 2][i % 2], left[i / 2], right[i % 2], sum[i / 2][i % 2]);
        }
    }
    for (int i = 0; i < 4; i++) {
        wmma::store_matrix_sync(c + (row + i / 2 * 16) * side + column + i % 2 * 16,
                                sum[i / 2][i % 2], side, wmma::mem_row_major);
    }
}

struct peers {
    const float4 *input[8];
    uint32_t *flags[8]; /* a word for each block and rank */
};

/* One shot: when all ranks' inputs are there, each rank reads and adds them all. */
KERNEL allreduce8(struct peers peers, float4 *out, int count, int rank)
{
    if (threadIdx.x < 8) {
        uint32_t *theirs = peers.flags[threadIdx.x] + blockIdx.x * 8 + rank;
        uint32_t *mine = peers.flags[rank] + blockIdx.x * 8 + threadIdx.x;
        uint32_t seen;
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(1) : "memory");
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        } while (seen == 0);
    }
    __syncthreads();
    for (int i = FIRST; i < count / 4; i += STEP) {
        float4 sum = peers.input[0][i];
        for (int peer = 1; peer < 8; peer++) {
            float4 more = peers.input[peer][i];
            sum.x += more.x;
            sum.y += more.y;
            sum.z += more.z;
            sum.w += more.w;
        }
        out[i] = sum;
    }
}
