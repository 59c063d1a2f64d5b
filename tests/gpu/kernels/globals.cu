/* Device, constant and managed-by-symbol variables with initialisers, copied from and to by name.
 */
#include "../differential.cuh"

struct node {
    int value;
    const int *table;
};
__device__ int table[6] = {1, -2, 3, -4, 5, 1 << 30};
__device__ node nodes[2] = {{7, table + 1}, {9, table + 4}};
__constant__ double factors[3] = {0.5, -3.0, 1e10};
__device__ unsigned long long counter = 0xffffffff00000000ull;

__global__ void globals(double *y)
{
    int i = threadIdx.x;
    y[i] = nodes[i % 2].value * factors[i % 3] + nodes[i % 2].table[i % 2] + table[i % 6];
    atomicAdd(&counter, (unsigned long long)i);
}

static void test(void)
{
    array<double> y(32);
    array<unsigned long long> count(1);
    int changed[2] = {random_int(-99, 99), random_int(-99, 99)};
    double factor = random_int(1, 9);
    CHECK(cudaMemcpyToSymbol(table, changed, sizeof changed, 2 * sizeof(int)));
    CHECK(cudaMemcpyToSymbol(factors, &factor, sizeof factor, sizeof factor));
    globals<<<1, 32>>>(y.device);
    synchronise();
    emit_exact("y", y);
    CHECK(cudaMemcpyFromSymbol(count.host.data(), counter, sizeof(unsigned long long)));
    count.push();
    emit_exact("counter", count);
}
