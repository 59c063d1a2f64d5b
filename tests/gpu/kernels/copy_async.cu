/* A product whose tiles come by cp.async in two stages; sizes 4, 8 and 16; zero fill at the edge.
 */
#include "../differential.cuh"

const int ROWS = 40, K = 128, STAGE = 32;

__device__ void copy16(void *to, const void *from, int bytes)
{
    unsigned shared = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(bytes));
}

__global__ void rows(const float *x, float *sums, float *edge)
{
    __shared__ __align__(16) float stage[2][STAGE];
    __shared__ __align__(16) float tail[32];
    float sum = 0;
    int lane = threadIdx.x;

    if (lane < STAGE / 4) {
        copy16(&stage[0][lane * 4], &x[blockIdx.x * K + lane * 4], 16);
    }
    asm volatile("cp.async.commit_group;");
    for (int k = 0; k < K / STAGE; k++) {
        if (k + 1 < K / STAGE && lane < STAGE / 4) {
            copy16(&stage[(k + 1) % 2][lane * 4], &x[blockIdx.x * K + (k + 1) * STAGE + lane * 4],
                   16);
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncwarp();
        sum += stage[k % 2][lane] * (float)(k + 1);
        __syncwarp();
    }
    sums[blockIdx.x * 32 + lane] = sum;
    tail[lane] = -1;
    __syncwarp();
    if (lane < 8) {
        copy16(&tail[lane * 4], &x[blockIdx.x * K], lane < 3 ? lane * 4 : 0);
    }
    asm volatile("cp.async.wait_all;");
    __syncwarp();
    edge[blockIdx.x * 32 + lane] = tail[lane];
    unsigned shared = (unsigned)__cvta_generic_to_shared(&tail[lane]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(x + (lane * 7) % K));
    asm volatile("cp.async.wait_all;");
    edge[blockIdx.x * 32 + lane] += tail[lane] * 3;
}

static void test(void)
{
    array<float> x(ROWS * K), sums(ROWS * 32), edge(ROWS * 32);
    x.fill([] { return random_int(-99, 99); });
    rows<<<ROWS, 32>>>(x.device, sums.device, edge.device);
    synchronise();
    emit_exact("sums", sums);
    emit_exact("edge", edge);
}
