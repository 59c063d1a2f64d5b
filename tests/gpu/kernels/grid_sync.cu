/* A cooperative grid that synchronises between the steps of a stencil. */
#include "../differential.cuh"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

const int N = 1024;

__global__ void stencil(int *a, int *b, int steps)
{
    cg::grid_group grid = cg::this_grid();
    int i = (int)grid.thread_rank();
    for (int step = 0; step < steps; step++) {
        const int *from = step % 2 ? b : a;
        int *to = step % 2 ? a : b;
        to[i] = from[(i + N - 1) % N] + 2 * from[i] - from[(i + 7) % N];
        grid.sync();
    }
}

static void test(void)
{
    array<int> a(N), b(N);
    int steps = 6;
    a.fill([] { return random_int(-1000, 1000); });
    void *args[] = {&a.device, &b.device, &steps};
    CHECK(cudaLaunchCooperativeKernel((void *)stencil, dim3(8), dim3(N / 8), args, 0, 0));
    synchronise();
    emit_exact("a", a);
    emit_exact("b", b);
}
