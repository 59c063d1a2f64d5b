/* Products by nvcuda::wmma in bf16, fp16 and int8, row and column layouts, from shared memory. */
#include "../differential.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int M = 48, N = 32, K = 64;

template <typename T, typename ACC, typename LAYOUT_A, typename LAYOUT_B>
__global__ void gemm(const T *a, const T *b, ACC *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, LAYOUT_A> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, LAYOUT_B> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, ACC> sum;
    const bool a_rows = std::is_same<LAYOUT_A, wmma::row_major>::value;
    const bool b_rows = std::is_same<LAYOUT_B, wmma::row_major>::value;
    int m = blockIdx.y * 16, n = blockIdx.x * 16;

    wmma::fill_fragment(sum, (ACC)0);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(left, a_rows ? a + m * K + k : a + k * M + m, a_rows ? K : M);
        wmma::load_matrix_sync(right, b_rows ? b + k * N + n : b + n * K + k, b_rows ? N : K);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + m * N + n, sum, N, wmma::mem_row_major);
}

template <typename T, typename ACC, typename A, typename B> static void product(const char *name)
{
    array<T> a(M * K), b(K * N);
    array<ACC> c(M * N);
    a.fill([] { return (T)(float)random_int(-5, 5); });
    b.fill([] { return (T)(float)random_int(-5, 5); });
    gemm<T, ACC, A, B><<<dim3(N / 16, M / 16), 32>>>(a.device, b.device, c.device);
    synchronise();
    emit_exact(name, c);
}

static void test(void)
{
    product<__nv_bfloat16, float, wmma::row_major, wmma::row_major>("bf16 row row");
    product<__nv_bfloat16, float, wmma::row_major, wmma::col_major>("bf16 row col");
    product<half, float, wmma::col_major, wmma::row_major>("fp16 col row");
    product<half, half, wmma::row_major, wmma::col_major>("fp16 sums in fp16");
    product<signed char, int, wmma::row_major, wmma::col_major>("int8 row col");
    product<unsigned char, int, wmma::col_major, wmma::col_major>("uint8 col col");

    array<__nv_bfloat16> a(M * K), b(K * N);
    array<float> c(M * N);
    a.fill(random_normal);
    b.fill(random_normal);
    gemm<__nv_bfloat16, float, wmma::row_major, wmma::row_major>
        <<<dim3(N / 16, M / 16), 32>>>(a.device, b.device, c.device);
    synchronise();
    std::vector<double> bound(M * N);
    for (int i = 0; i < M * N; i++) {
        double sum = 0;
        for (int k = 0; k < K; k++) {
            sum += fabs((double)(float)a.host[i / N * K + k] * (float)b.host[k * N + i % N]);
        }
        bound[i] = 4 * ldexp(sum, -22);
    }
    emit_bounded("bf16 normal", c, bound);
}
