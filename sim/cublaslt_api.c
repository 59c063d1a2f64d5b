#include "sim/cublas_core.h"

#include <cublasLt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Our descriptors live inside cuBLAS's opaque records, which callers may hold by value. */
struct layout {
    cudaDataType dtype;
    int32_t order, batches;
    uint64_t rows, columns;
    int64_t leading, batch_stride;
};
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "layout fits");

struct description {
    int32_t compute, scale_dtype, pointer_mode, transposed_a, transposed_b, transposed_c;
    int32_t epilogue, bias_dtype;
    const void *bias;
    int64_t bias_batch_stride;
    const float *scale_a, *scale_b, *scale_d;
};
_Static_assert(sizeof(struct description) <= sizeof(cublasLtMatmulDescOpaque_t), "it fits");

static int handle_mark;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *handle = (cublasLtHandle_t)(void *)&handle_mark;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return handle == (cublasLtHandle_t)(void *)&handle_mark ? CUBLAS_STATUS_SUCCESS
                                                            : CUBLAS_STATUS_NOT_INITIALIZED;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

/* ---- attributes: where each lies in our records ---- */

struct attribute {
    int number;
    size_t offset, size_bytes;
};
#define ATTRIBUTE(number, type, member)                                                            \
    {                                                                                              \
        (number), offsetof(struct type, member), sizeof(((struct type *)0)->member)                \
    }

static const struct attribute layout_attributes[] = {
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_TYPE, layout, dtype),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ORDER, layout, order),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, layout, rows),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, layout, columns),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, layout, leading),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout, batches),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout, batch_stride),
    {-1, 0, 0},
};
static const struct attribute description_attributes[] = {
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, description, compute),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, description, scale_dtype),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_POINTER_MODE, description, pointer_mode),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, description, transposed_a),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, description, transposed_b),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSC, description, transposed_c),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, description, epilogue),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, description, bias),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, description, bias_dtype),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, description, bias_batch_stride),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, description, scale_a),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, description, scale_b),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, description, scale_d),
    {-1, 0, 0},
};

static const struct attribute *find_attribute(const struct attribute *attributes, int number)
{
    while (attributes->number >= 0 && attributes->number != number) {
        attributes++;
    }
    return attributes->number >= 0 ? attributes : NULL;
}

static cublasStatus_t set_attribute(const struct attribute *attribute, void *record,
                                    const void *value, size_t size_bytes)
{
    if (record == NULL || value == NULL || size_bytes != attribute->size_bytes) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy((char *)record + attribute->offset, value, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_attribute(const struct attribute *attribute, const void *record,
                                    void *value, size_t size_bytes, size_t *written)
{
    if (written != NULL) {
        *written = attribute->size_bytes;
    }
    if (size_bytes == 0 && written != NULL) {
        return CUBLAS_STATUS_SUCCESS;
    }
    if (record == NULL || value == NULL || size_bytes != attribute->size_bytes) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(value, (const char *)record + attribute->offset, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t number,
                                                const void *value, size_t size_bytes)
{
    const struct attribute *attribute = find_attribute(layout_attributes, (int)number);

    return attribute != NULL ? set_attribute(attribute, layout, value, size_bytes)
                             : blas_refuse("attribute %d of a matrix layout", (int)number);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t number, void *value,
                                                size_t size_bytes, size_t *written)
{
    const struct attribute *attribute = find_attribute(layout_attributes, (int)number);

    return attribute != NULL ? get_attribute(attribute, layout, value, size_bytes, written)
                             : blas_refuse("attribute %d of a matrix layout", (int)number);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t number,
                                              const void *value, size_t size_bytes)
{
    const struct attribute *attribute = find_attribute(description_attributes, (int)number);

    if (number == CUBLASLT_MATMUL_DESC_FAST_ACCUM ||
        number == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET) {
        return CUBLAS_STATUS_SUCCESS; /* advice about speed */
    }
    return attribute != NULL ? set_attribute(attribute, description, value, size_bytes)
                             : blas_refuse("attribute %d of a product", (int)number);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t number, void *value,
                                              size_t size_bytes, size_t *written)
{
    const struct attribute *attribute = find_attribute(description_attributes, (int)number);

    return attribute != NULL ? get_attribute(attribute, description, value, size_bytes, written)
                             : blas_refuse("attribute %d of a product", (int)number);
}

/* ---- descriptors ---- */

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t out, size_t size,
                                                 cudaDataType dtype, uint64_t rows,
                                                 uint64_t columns, int64_t leading)
{
    struct layout layout = {dtype, CUBLASLT_ORDER_COL, 1, rows, columns, leading, 0};

    if (out == NULL || size < sizeof layout) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memset(out, 0, size);
    memcpy(out, &layout, sizeof layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType dtype,
                                          uint64_t rows, uint64_t columns, int64_t leading)
{
    *layout = malloc(sizeof **layout);
    if (*layout == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    return cublasLtMatrixLayoutInit_internal(*layout, sizeof **layout, dtype, rows, columns,
                                             leading);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t out, size_t size,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale_dtype)
{
    struct description description = {.compute = (int32_t)compute,
                                      .scale_dtype = (int32_t)scale_dtype,
                                      .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                      .bias_dtype = -1};

    if (out == NULL || size < sizeof description) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memset(out, 0, size);
    memcpy(out, &description, sizeof description);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute, cudaDataType_t scale_dtype)
{
    *description = malloc(sizeof **description);
    if (*description == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    return cublasLtMatmulDescInit_internal(*description, sizeof **description, compute,
                                           scale_dtype);
}

cublasStatus_t cublasLtMatmulDescDestroy(const cublasLtMatmulDesc_t description)
{
    free(description);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t size)
{
    memset(preference, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, sizeof **preference);
    return *preference != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(const cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

/* One algorithm serves all, so what a caller prefers changes nothing. */
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t number,
                                                    const void *value, size_t size_bytes)
{
    (void)number;
    (void)size_bytes;
    return preference != NULL && value != NULL ? CUBLAS_STATUS_SUCCESS
                                               : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- the product ---- */

static struct gemm_matrix matrix_of(const void *data, const struct layout *layout,
                                    bool is_transposed)
{
    bool has_rows_apart = (layout->order == CUBLASLT_ORDER_ROW) != is_transposed;

    return (struct gemm_matrix){
        .data = (void *)(uintptr_t)data,
        .dtype = layout->dtype,
        .row_stride = has_rows_apart ? layout->leading : 1,
        .column_stride = has_rows_apart ? 1 : layout->leading,
        .batch_stride = layout->batch_stride,
    };
}

static cublasStatus_t read_epilogue(const struct description *description, struct gemm_args *args)
{
    int epilogue = description->epilogue;

    switch (epilogue & ~CUBLASLT_EPILOGUE_BIAS) {
    case 0:
    case CUBLASLT_EPILOGUE_DEFAULT:
        args->activation = GEMM_LINEAR;
        break;
    case CUBLASLT_EPILOGUE_RELU:
        args->activation = GEMM_RELU;
        break;
    case CUBLASLT_EPILOGUE_GELU:
        args->activation = GEMM_GELU;
        break;
    default:
        return blas_refuse("epilogue %d", epilogue);
    }
    if (epilogue & CUBLASLT_EPILOGUE_BIAS) {
        args->bias = description->bias;
        args->bias_dtype =
            description->bias_dtype >= 0 ? (cudaDataType)description->bias_dtype : args->d.dtype;
        args->bias_batch_stride = description->bias_batch_stride;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_plain(const struct layout *layout)
{
    return layout->order == CUBLASLT_ORDER_COL || layout->order == CUBLASLT_ORDER_ROW;
}

/* Fills sizes and checks that they agree. */
static cublasStatus_t read_shapes(const struct description *description, const struct layout *a,
                                  const struct layout *b, const struct layout *d,
                                  struct gemm_args *args)
{
    bool a_t = description->transposed_a != CUBLAS_OP_N,
         b_t = description->transposed_b != CUBLAS_OP_N;

    args->m = (int64_t)(a_t ? a->columns : a->rows);
    args->k = (int64_t)(a_t ? a->rows : a->columns);
    args->n = (int64_t)(b_t ? b->rows : b->columns);
    args->batches = d->batches;
    if (args->k != (int64_t)(b_t ? b->columns : b->rows) || args->m != (int64_t)d->rows ||
        args->n != (int64_t)d->columns || a->batches != b->batches || a->batches != d->batches) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!is_plain(a) || !is_plain(b) || !is_plain(d) || description->transposed_c != CUBLAS_OP_N) {
        return blas_refuse("a matrix order other than rows or columns, or a transposed C");
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* NOLINTBEGIN(readability-function-size): the signatures are cuBLAS's. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const struct description *description = (const void *)operation;
    const struct layout *layouts[] = {(const void *)a_layout, (const void *)b_layout,
                                      (const void *)c_layout, (const void *)d_layout};
    struct gemm_args args = {0};

    (void)algorithm;
    (void)workspace;
    (void)workspace_bytes;
    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (description == NULL || layouts[0] == NULL || layouts[1] == NULL || layouts[3] == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = read_shapes(description, layouts[0], layouts[1], layouts[3], &args);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (blas_compute_dtype((cublasComputeType_t)description->compute, &args.sum_dtype) != 0 ||
        description->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE) {
        return blas_refuse("compute type %d with pointer mode %d", description->compute,
                           description->pointer_mode);
    }
    bool is_device = description->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
    args.scalar_dtype = (cudaDataType)description->scale_dtype;
    args.alpha = blas_scalar(alpha, args.scalar_dtype, is_device);
    args.beta = blas_scalar(beta, args.scalar_dtype, is_device);
    args.a = matrix_of(a, layouts[0], description->transposed_a != CUBLAS_OP_N);
    args.b = matrix_of(b, layouts[1], description->transposed_b != CUBLAS_OP_N);
    args.d = matrix_of(d, layouts[3], false);
    if (c != NULL && layouts[2] != NULL) {
        args.c = matrix_of(c, layouts[2], false);
    }
    args.scale_a = description->scale_a;
    args.scale_b = description->scale_b;
    args.scale_d = description->scale_d;
    status = read_epilogue(description, &args);
    return status == CUBLAS_STATUS_SUCCESS ? blas_launch(&args, stream) : status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *returned)
{
    struct gemm_args args = {0};

    (void)c;
    (void)preference;
    if (handle == NULL || operation == NULL || results == NULL || returned == NULL ||
        requested < 1) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = read_shapes((const void *)operation, (const void *)a, (const void *)b,
                                        (const void *)d, &args);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    memset(&results[0], 0, sizeof results[0]);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
    *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
}
/* NOLINTEND(readability-function-size) */
