/* cuBLAS: products of small whole numbers, which every type holds exactly; column-major. */
#include "tests/cuda_cases.h"
#include "tests/rounded.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <math.h>
#include <string.h>

enum { M = 12, N = 8, K = 16, BATCHES = 3, WORDS_MAX = 16 * 16 };

struct matrix {
    int rows, columns;
    bool is_transposed; /* as it lies in memory */
};

/* Element (row, column) of the matrices; `which` tells them and their batches apart. */
static double element(int which, int row, int column)
{
    return (row * 3 + column * 5 + which * 7) % 5 - 2;
}

static int bytes_of(cudaDataType type)
{
    return type == CUDA_R_64F                         ? 8
           : type == CUDA_R_32F || type == CUDA_R_32I ? 4
           : type == CUDA_R_8I                        ? 1
                                                      : 2;
}

static void put(uint8_t *to, cudaDataType type, double value)
{
    float single = (float)value;
    int32_t whole = (int32_t)value;
    uint32_t half = type == CUDA_R_16F    ? narrow_round(&narrow_f16, value, TO_NEAREST, false)
                    : type == CUDA_R_16BF ? narrow_round(&narrow_bf16, value, TO_NEAREST, false)
                                          : 0;
    const void *from = type == CUDA_R_64F                          ? (void *)&value
                       : type == CUDA_R_32F                        ? (void *)&single
                       : type == CUDA_R_16F || type == CUDA_R_16BF ? (void *)&half
                                                                   : (void *)&whole;

    memcpy(to, from, (size_t)bytes_of(type));
}

static double get(const uint8_t *from, cudaDataType type)
{
    double value = 0;
    float single = 0;
    int32_t whole = 0;
    uint16_t half = 0;

    switch (type) {
    case CUDA_R_64F:
        memcpy(&value, from, sizeof value);
        return value;
    case CUDA_R_32F:
        memcpy(&single, from, sizeof single);
        return single;
    case CUDA_R_32I:
        memcpy(&whole, from, sizeof whole);
        return whole;
    default:
        memcpy(&half, from, sizeof half);
        return (double)narrow_value(type == CUDA_R_16F ? &narrow_f16 : &narrow_bf16, half);
    }
}

/* BATCHES matrices in device memory, one behind the other. */
static void *upload(const struct matrix *matrix, cudaDataType type, int which)
{
    uint8_t bytes[BATCHES * WORDS_MAX * 8];
    int count = matrix->rows * matrix->columns, size_bytes = bytes_of(type);
    void *made = NULL;

    for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < count; i++) {
            int row = matrix->is_transposed ? i / matrix->columns : i % matrix->rows;
            int column = matrix->is_transposed ? i % matrix->columns : i / matrix->rows;
            put(bytes + (size_t)((batch * count + i) * size_bytes), type,
                element(which + batch, row, column));
        }
    }
    GOOD(cudaMalloc(&made, sizeof bytes));
    GOOD(cudaMemcpy(made, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    return made;
}

struct product {
    cublasOperation_t a_op, b_op;
    void *a, *b, *c;
    double alpha, beta;
    cudaDataType type; /* of c */
};

static struct product new_product(cublasOperation_t a_op, cublasOperation_t b_op, cudaDataType from,
                                  cudaDataType to)
{
    struct matrix a = {M, K, a_op != CUBLAS_OP_N};
    struct matrix b = {K, N, b_op != CUBLAS_OP_N};
    struct matrix c = {M, N, false};

    return (struct product){.a_op = a_op,
                            .b_op = b_op,
                            .a = upload(&a, from, 0),
                            .b = upload(&b, from, 10),
                            .c = upload(&c, to, 20),
                            .alpha = 2,
                            .beta = 3,
                            .type = to};
}

static int a_leading(const struct product *product)
{
    return product->a_op == CUBLAS_OP_N ? M : K;
}
static int b_leading(const struct product *product)
{
    return product->b_op == CUBLAS_OP_N ? K : N;
}

static double exact(const struct product *product, int batch, int row, int column)
{
    double sum = 0;

    for (int k = 0; k < K; k++) {
        sum += element(batch, row, k) * element(10 + batch, k, column);
    }
    return product->alpha * sum + product->beta * element(20 + batch, row, column);
}

static void expect_product(const struct product *product, int batches)
{
    uint8_t bytes[BATCHES * WORDS_MAX * 8];

    GOOD(cudaMemcpy(bytes, product->c, sizeof bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < batches * M * N; i++) {
        double wanted = exact(product, i / (M * N), i % M, i % (M * N) / M);
        EXPECT(get(bytes + (size_t)(i * bytes_of(product->type)), product->type) == wanted, 1);
    }
}

static void floats_are_multiplied_in_every_orientation(int rank)
{
    cublasHandle_t handle = NULL;
    const cublasOperation_t ops[] = {CUBLAS_OP_N, CUBLAS_OP_T};

    (void)rank;
    GOOD(cublasCreate(&handle));
    for (int i = 0; i < 4; i++) {
        struct product s = new_product(ops[i % 2], ops[i / 2], CUDA_R_32F, CUDA_R_32F);
        struct product d = new_product(ops[i % 2], ops[i / 2], CUDA_R_64F, CUDA_R_64F);
        float alpha = 2, beta = 3;
        GOOD(cublasSgemm(handle, s.a_op, s.b_op, M, N, K, &alpha, s.a, a_leading(&s), s.b,
                         b_leading(&s), &beta, s.c, M));
        expect_product(&s, 1);
        GOOD(cublasDgemm(handle, d.a_op, d.b_op, M, N, K, &d.alpha, d.a, a_leading(&d), d.b,
                         b_leading(&d), &d.beta, d.c, M));
        expect_product(&d, 1);
    }
    GOOD(cublasDestroy(handle));
}

static const struct {
    cudaDataType from, to;
    cublasComputeType_t compute;
} types[] = {
    {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
    {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
    {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
    {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I},
};

static void mixed_types_are_multiplied_alone_and_in_batches(int rank)
{
    cublasHandle_t handle = NULL;

    (void)rank;
    GOOD(cublasCreate(&handle));
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        float alpha = 2, beta = 3;
        int whole_alpha = 2, whole_beta = 3;
        bool is_whole = types[k].compute == CUBLAS_COMPUTE_32I;
        const void *scalars[2] = {is_whole ? (void *)&whole_alpha : (void *)&alpha,
                                  is_whole ? (void *)&whole_beta : (void *)&beta};
        /* Of bytes the real library wants a transposed A. */
        struct product one = new_product(CUBLAS_OP_T, CUBLAS_OP_N, types[k].from, types[k].to);
        GOOD(cublasGemmEx(handle, one.a_op, one.b_op, M, N, K, scalars[0], one.a, types[k].from, K,
                          one.b, types[k].from, K, scalars[1], one.c, types[k].to, M,
                          types[k].compute, CUBLAS_GEMM_DEFAULT));
        expect_product(&one, 1);
        struct product all = new_product(CUBLAS_OP_T, CUBLAS_OP_N, types[k].from, types[k].to);
        GOOD(cublasGemmStridedBatchedEx(
            handle, all.a_op, all.b_op, M, N, K, scalars[0], all.a, types[k].from, K,
            (long long)M * K, all.b, types[k].from, K, (long long)K * N, scalars[1], all.c,
            types[k].to, M, (long long)M * N, BATCHES, types[k].compute, CUBLAS_GEMM_DEFAULT));
        expect_product(&all, BATCHES);
    }
}

static void batches_are_found_by_pointers(int rank)
{
    cublasHandle_t handle = NULL;
    struct product product = new_product(CUBLAS_OP_N, CUBLAS_OP_N, CUDA_R_16F, CUDA_R_16F);
    const char *pointers[3][BATCHES];
    const void **on_device = NULL;
    float scalars[2] = {2, 3};
    float *scalars_on_device = NULL;

    (void)rank;
    for (ptrdiff_t batch = 0; batch < BATCHES; batch++) {
        pointers[0][batch] = (char *)product.a + batch * M * K * 2;
        pointers[1][batch] = (char *)product.b + batch * K * N * 2;
        pointers[2][batch] = (char *)product.c + batch * M * N * 2;
    }
    GOOD(cudaMalloc((void **)&on_device, sizeof pointers));
    GOOD(cudaMemcpy(on_device, pointers, sizeof pointers, cudaMemcpyHostToDevice));
    GOOD(cudaMalloc((void **)&scalars_on_device, sizeof scalars));
    GOOD(cudaMemcpy(scalars_on_device, scalars, sizeof scalars, cudaMemcpyHostToDevice));
    GOOD(cublasCreate(&handle));
    GOOD(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    GOOD(cublasGemmBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, scalars_on_device,
                             on_device, CUDA_R_16F, M, on_device + BATCHES, CUDA_R_16F, K,
                             scalars_on_device + 1,
                             (void *const *)(on_device + (size_t)2 * BATCHES), CUDA_R_16F, M,
                             BATCHES, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    expect_product(&product, BATCHES);
}

/* As the header has them for C++, where the pointers are to __half. */
cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                           int m, int n, int k, const void *alpha, const void *a, int a_leading,
                           const void *b, int b_leading, const void *beta, void *c, int c_leading);
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_op,
                                         cublasOperation_t b_op, int m, int n, int k,
                                         const void *alpha, const void *a, int a_leading,
                                         long long a_stride, const void *b, int b_leading,
                                         long long b_stride, const void *beta, void *c,
                                         int c_leading, long long c_stride, int batches);

static void halves_are_multiplied(int rank)
{
    cublasHandle_t handle = NULL;
    struct product one = new_product(CUBLAS_OP_N, CUBLAS_OP_T, CUDA_R_16F, CUDA_R_16F);
    struct product all = new_product(CUBLAS_OP_N, CUBLAS_OP_T, CUDA_R_16F, CUDA_R_16F);
    uint16_t scalars[2] = {0x4000, 0x4200}; /* 2 and 3 */
    const void *alpha = &scalars[0], *beta = &scalars[1];

    (void)rank;
    GOOD(cublasCreate(&handle));
    GOOD(cublasHgemm(handle, one.a_op, one.b_op, M, N, K, alpha, one.a, M, one.b, N, beta, one.c,
                     M));
    expect_product(&one, 1);
    GOOD(cublasHgemmStridedBatched(handle, all.a_op, all.b_op, M, N, K, alpha, all.a, M,
                                   (long long)M * K, all.b, N, (long long)K * N, beta, all.c, M,
                                   (long long)M * N, BATCHES));
    expect_product(&all, BATCHES);
}

/* ---- cublasLt ---- */

static double activated(cublasLtEpilogue_t epilogue, double value)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        return value > 0 ? value : 0;
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
        return value * 0.5 * (1 + erf(value / sqrt(2)));
    default:
        return value;
    }
}

static cublasLtMatrixLayout_t layout(cudaDataType type, int rows, int columns)
{
    cublasLtMatrixLayout_t made = NULL;

    GOOD(cublasLtMatrixLayoutCreate(&made, type, (uint64_t)rows, (uint64_t)columns, rows));
    return made;
}

static void multiply_by_lt(struct product *product, cublasLtEpilogue_t epilogue, void *bias)
{
    cublasLtHandle_t handle = NULL;
    cublasLtMatmulDesc_t operation = NULL;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    cublasLtMatrixLayout_t a = layout(CUDA_R_16BF, K, M), b = layout(CUDA_R_16BF, K, N);
    cublasLtMatrixLayout_t c = layout(product->type, M, N);
    float alpha = (float)product->alpha, beta = (float)product->beta;
    int count = 0;

    GOOD(cublasLtCreate(&handle));
    GOOD(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    GOOD(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &product->a_op,
                                        sizeof product->a_op));
    GOOD(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                        sizeof epilogue));
    if (bias) {
        GOOD(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                            sizeof bias));
    }
    GOOD(cublasLtMatmulPreferenceCreate(&preference));
    GOOD(cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, 1, &found,
                                        &count));
    EXPECT(count, 1);
    GOOD(cublasLtMatmul(handle, operation, &alpha, product->a, a, product->b, b, &beta, product->c,
                        c, product->c, c, &found.algo, NULL, 0, 0));
    GOOD(cublasLtMatmulPreferenceDestroy(preference));
    GOOD(cublasLtMatrixLayoutDestroy(a));
    GOOD(cublasLtMatrixLayoutDestroy(b));
    GOOD(cublasLtMatrixLayoutDestroy(c));
    GOOD(cublasLtMatmulDescDestroy(operation));
    GOOD(cublasLtDestroy(handle));
}

static void epilogues_add_and_bend(int rank)
{
    static const cublasLtEpilogue_t epilogues[] = {
        CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU,
        CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS};
    struct matrix column = {M, 1, false};
    void *bias = upload(&column, CUDA_R_16BF, 30);
    uint8_t bytes[M * N * 2];

    (void)rank;
    for (int k = 0; k < 6; k++) {
        struct product product = new_product(CUBLAS_OP_T, CUBLAS_OP_N, CUDA_R_16BF, CUDA_R_16BF);
        bool has_bias = k % 2;
        product.alpha = 0.125;
        product.beta = 1;
        multiply_by_lt(&product, epilogues[k], has_bias ? bias : NULL);
        GOOD(cudaMemcpy(bytes, product.c, sizeof bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < M * N; i++) {
            double sum = exact(&product, 0, i % M, i / M) + (has_bias ? element(30, i % M, 0) : 0);
            double wanted = activated(epilogues[k], sum);
            double error = fabs(get(bytes + (size_t)i * 2, CUDA_R_16BF) - wanted);
            /* bf16's rounding, and GELU by tanh */
            EXPECT(error <= fabs(wanted) * 0x1p-8 + (k >= 4 ? 2e-3 : 0), 1);
        }
    }
}

/* ---- what is wrong ---- */

static void wrong_shapes_are_refused(int rank)
{
    struct product product = new_product(CUBLAS_OP_N, CUBLAS_OP_N, CUDA_R_32F, CUDA_R_32F);
    cublasHandle_t handle = NULL;
    float one = 1;

    (void)rank;
    GOOD(cublasCreate(&handle));
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, product.a, M - 1, product.b,
                       K, &one, product.c, M),
           CUBLAS_STATUS_INVALID_VALUE);
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, -1, N, K, &one, product.a, M, product.b, K,
                       &one, product.c, M),
           CUBLAS_STATUS_INVALID_VALUE);
    EXPECT(cublasSgemm(NULL, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, product.a, M, product.b, K,
                       &one, product.c, M),
           CUBLAS_STATUS_NOT_INITIALIZED);
}

/* The real library has it. */
static void a_blas_call_that_is_missing_is_named(int rank)
{
    struct product product = new_product(CUBLAS_OP_N, CUBLAS_OP_N, CUDA_R_32F, CUDA_R_32F);
    cublasHandle_t handle = NULL;
    float one = 1;

    (void)rank;
    GOOD(cublasCreate(&handle));
    cublasStatus_t status = cublasSaxpy(handle, M, &one, product.a, 1, product.c, 1);
    EXPECT(status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_NOT_SUPPORTED, 1);
}

const struct cuda_case cases_of_blas[] = {
    CASE(floats_are_multiplied_in_every_orientation, 1),
    CASE(mixed_types_are_multiplied_alone_and_in_batches, 1),
    CASE(batches_are_found_by_pointers, 1),
    CASE(halves_are_multiplied, 1),
    CASE(epilogues_add_and_bend, 1),
    CASE(wrong_shapes_are_refused, 1),
    CASE(a_blas_call_that_is_missing_is_named, 1, .report = "cublasSaxpy_v2"),
    {0},
};
