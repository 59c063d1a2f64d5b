#include "common/dtype.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size_bytes;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_BF16] = {"bf16", 2},           [DTYPE_FP16] = {"fp16", 2},
    [DTYPE_FP32] = {"fp32", 4},           [DTYPE_FP64] = {"fp64", 8},
    [DTYPE_E4M3] = {"e4m3", 1},           [DTYPE_E5M2] = {"e5m2", 1},
    [DTYPE_INT8] = {"int8", 1},           [DTYPE_UINT8] = {"uint8", 1},
    [DTYPE_INT32] = {"int32", 4},         [DTYPE_INT64] = {"int64", 8},
    [DTYPE_COMPLEX64] = {"complex64", 8}, [DTYPE_BOOL8] = {"bool8", 1},
};

const char *dtype_name(enum dtype dtype)
{
    assert(dtype < DTYPE_COUNT);
    return dtypes[dtype].name;
}

size_t dtype_size_bytes(enum dtype dtype)
{
    assert(dtype < DTYPE_COUNT);
    return dtypes[dtype].size_bytes;
}

int dtype_find(const char *name)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (strcmp(dtypes[dtype].name, name) == 0) {
            return dtype;
        }
    }
    return -1;
}
