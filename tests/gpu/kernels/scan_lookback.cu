/* Inclusive scan with decoupled look-back: blocks wait for their predecessors' flags. */
#include "../differential.cuh"

const int BLOCK = 128, BLOCKS = 20;

__global__ void scan(const int *x, int *y, volatile int *sums, volatile int *flags, int *ticket)
{
    __shared__ int s[BLOCK], tile, before;
    if (threadIdx.x == 0) {
        tile = atomicAdd(ticket, 1);
    }
    __syncthreads();
    int i = tile * BLOCK + (int)threadIdx.x;
    s[threadIdx.x] = x[i];
    for (int step = 1; step < BLOCK; step *= 2) {
        __syncthreads();
        int add = (int)threadIdx.x >= step ? s[threadIdx.x - step] : 0;
        __syncthreads();
        s[threadIdx.x] += add;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        if (tile > 0) {
            while (flags[tile - 1] == 0) {
            }
            __threadfence();
            sum = sums[tile - 1];
        }
        before = sum;
        sums[tile] = sum + s[BLOCK - 1];
        __threadfence();
        flags[tile] = 1;
    }
    __syncthreads();
    y[i] = s[threadIdx.x] + before;
}

static void test(void)
{
    array<int> x(BLOCK * BLOCKS), y(BLOCK * BLOCKS), sums(BLOCKS), flags(BLOCKS), ticket(1);
    x.fill([] { return random_int(-100, 100); });
    sums.fill([] { return 0; });
    flags.fill([] { return 0; });
    ticket.fill([] { return 0; });
    scan<<<BLOCKS, BLOCK>>>(x.device, y.device, sums.device, flags.device, ticket.device);
    synchronise();
    emit_exact("scan", y);
}
