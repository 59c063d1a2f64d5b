/* Tiles of cooperative groups: reduce, scan by shuffles, labelled and coalesced groups. */
#include "../differential.cuh"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void tiles(const int *x, int *y)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), v = x[i];

    y[i * 4] = cg::reduce(tile, v, cg::plus<int>());
    y[i * 4 + 1] = cg::reduce(tile, v, cg::less<int>());
    int sum = v;
    for (unsigned step = 1; step < tile.size(); step *= 2) {
        int other = tile.shfl_up(sum, step);
        sum += tile.thread_rank() >= step ? other : 0;
    }
    y[i * 4 + 2] = sum;
    y[i * 4 + 3] = 0;
    if (v % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        y[i * 4 + 3] = (int)(active.size() * 100 + active.thread_rank());
    }
}

static void test(void)
{
    array<int> x(192), y(192 * 4);
    x.fill([] { return random_int(-500, 500); });
    tiles<<<2, 96>>>(x.device, y.device);
    synchronise();
    emit_exact("tiles", y);
}
