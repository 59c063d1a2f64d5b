#include "tasks/oracle_round.h"

#include "tasks/fill.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* A small binary format: a sign, an exponent with a bias, a mantissa. */
struct format {
    int mantissa_bits;
    int bias;
    uint32_t largest; /* code of the largest finite magnitude */
    uint32_t beyond;  /* code that larger magnitudes get */
    uint32_t nan;
    uint32_t sign;
};

static const struct format formats[DTYPE_COUNT] = {
    [DTYPE_BF16] = {7, 127, 0x7f7f, 0x7f80, 0x7fff, 0x8000},
    [DTYPE_FP16] = {10, 15, 0x7bff, 0x7c00, 0x7fff, 0x8000},
    [DTYPE_E4M3] = {3, 7, 0x7e, 0x7e, 0x7f, 0x80},
    [DTYPE_E5M2] = {2, 15, 0x7b, 0x7c, 0x7f, 0x80},
};

int dtype_scalars(enum dtype dtype)
{
    return dtype == DTYPE_COMPLEX64 ? 2 : 1;
}

size_t dtype_scalar_bytes(enum dtype dtype)
{
    return dtype_size_bytes(dtype) / (size_t)dtype_scalars(dtype);
}

bool dtype_is_integer(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_INT8:
    case DTYPE_UINT8:
    case DTYPE_INT32:
    case DTYPE_INT64:
    case DTYPE_BOOL8:
        return true;
    default:
        return false;
    }
}

static uint32_t encode(const struct format *format, double value)
{
    uint32_t sign = signbit(value) ? format->sign : 0;
    double magnitude = fabs(value);
    uint32_t code = 0;

    if (isnan(value)) {
        return format->nan;
    }
    if (magnitude > 0) {
        int exponent = isinf(value) ? INT_MAX : ilogb(magnitude);
        if (exponent > format->bias + 1) {
            return sign | format->beyond;
        }
        int lowest = 1 - format->bias;
        int unit = (exponent > lowest ? exponent : lowest) - format->mantissa_bits;
        /* Below 2^53, so nearbyint rounds exactly once; a carry runs into the exponent field. */
        double rounded = nearbyint(ldexp(magnitude, -unit));
        uint32_t base = exponent > lowest ? (uint32_t)(exponent - lowest) : 0;
        code = (base << format->mantissa_bits) + (uint32_t)rounded;
    }
    return sign | (code > format->largest ? format->beyond : code);
}

static double decode(const struct format *format, uint32_t bits)
{
    uint32_t code = bits & (format->sign - 1);
    uint32_t field = code >> format->mantissa_bits;
    uint32_t mantissa = code & ((1U << format->mantissa_bits) - 1);
    double magnitude;

    if (code > format->largest) {
        magnitude = code == format->beyond ? INFINITY : NAN;
    } else if (field == 0) {
        magnitude = ldexp(mantissa, 1 - format->bias - format->mantissa_bits);
    } else {
        magnitude = ldexp(mantissa + (1U << format->mantissa_bits),
                          (int)field - format->bias - format->mantissa_bits);
    }
    return bits & format->sign ? -magnitude : magnitude;
}

static double decode_bf16(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Through fp32: its exponent range holds every fp16, the factor moves the bias. */
static double decode_fp16(uint16_t code)
{
    uint32_t bits = (uint32_t)(code & 0x7fff) << 13;
    float value;

    if (bits >= 0x7c00U << 13) {
        return decode(&formats[DTYPE_FP16], code);
    }
    memcpy(&value, &bits, sizeof(value));
    value *= 0x1p112F;
    return code & 0x8000 ? -value : value;
}

double scalar_get(enum dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case DTYPE_BF16:
        return decode_bf16(((const uint16_t *)data)[index]);
    case DTYPE_FP16:
        return decode_fp16(((const uint16_t *)data)[index]);
    case DTYPE_FP32:
    case DTYPE_COMPLEX64:
        return ((const float *)data)[index];
    case DTYPE_FP64:
        return ((const double *)data)[index];
    case DTYPE_E4M3:
    case DTYPE_E5M2:
        return decode(&formats[dtype], ((const uint8_t *)data)[index]);
    default:
        return (double)scalar_get_integer(dtype, data, index);
    }
}

int64_t scalar_get_integer(enum dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case DTYPE_INT8:
        return ((const int8_t *)data)[index];
    case DTYPE_UINT8:
    case DTYPE_BOOL8:
        return ((const uint8_t *)data)[index];
    case DTYPE_INT32:
        return ((const int32_t *)data)[index];
    default:
        assert(dtype == DTYPE_INT64);
        return ((const int64_t *)data)[index];
    }
}

/* True where fp32 holds the value exactly, so that rounding from fp32 rounds once. */
static bool is_float(double value)
{
    return (double)(float)value == value;
}

void scalar_set(enum dtype dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case DTYPE_BF16:
        ((uint16_t *)data)[index] =
            is_float(value) ? fill_to_bf16((float)value) : (uint16_t)encode(&formats[dtype], value);
        break;
    case DTYPE_FP16:
        ((uint16_t *)data)[index] =
            is_float(value) ? fill_to_fp16((float)value) : (uint16_t)encode(&formats[dtype], value);
        break;
    case DTYPE_FP32:
    case DTYPE_COMPLEX64:
        ((float *)data)[index] = (float)value;
        break;
    case DTYPE_FP64:
        ((double *)data)[index] = value;
        break;
    case DTYPE_E4M3:
    case DTYPE_E5M2:
        ((uint8_t *)data)[index] = (uint8_t)encode(&formats[dtype], value);
        break;
    default:
        assert(fabs(value) <= 9007199254740992.0); /* 2^53 */
        scalar_set_integer(dtype, data, index, (int64_t)value);
        break;
    }
}

void scalar_set_integer(enum dtype dtype, void *data, int64_t index, int64_t value)
{
    switch (dtype) {
    case DTYPE_INT8:
        assert(value == (int8_t)value);
        ((int8_t *)data)[index] = (int8_t)value;
        break;
    case DTYPE_UINT8:
    case DTYPE_BOOL8:
        assert(value == (uint8_t)value);
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    case DTYPE_INT32:
        assert(value == (int32_t)value);
        ((int32_t *)data)[index] = (int32_t)value;
        break;
    default:
        assert(dtype == DTYPE_INT64);
        ((int64_t *)data)[index] = value;
        break;
    }
}

double dtype_round(enum dtype dtype, double value)
{
    double rounded = 0; /* as large as any element */

    assert(!dtype_is_integer(dtype));
    scalar_set(dtype, &rounded, 0, value);
    return scalar_get(dtype, &rounded, 0);
}

double dtype_unit(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP32:
    case DTYPE_COMPLEX64:
        return 0x1p-24;
    case DTYPE_FP64:
        return 0x1p-53;
    default:
        assert(formats[dtype].mantissa_bits > 0);
        return ldexp(1, -formats[dtype].mantissa_bits - 1);
    }
}

double dtype_smallest(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP32:
    case DTYPE_COMPLEX64:
        return 0x1p-149;
    case DTYPE_FP64:
        return 0x1p-1074;
    default: {
        uint16_t code = 1;
        assert(formats[dtype].mantissa_bits > 0);
        return scalar_get(dtype, &code, 0); /* little endian: a byte, too */
    }
    }
}

double tensor_get(const struct tensor *tensor, int64_t index)
{
    return scalar_get(tensor->spec->dtype, tensor->data, index);
}

int64_t tensor_get_integer(const struct tensor *tensor, int64_t index)
{
    return scalar_get_integer(tensor->spec->dtype, tensor->data, index);
}

void tensor_set(const struct tensor *tensor, int64_t index, double value)
{
    scalar_set(tensor->spec->dtype, tensor->data, index, value);
}

void tensor_set_integer(const struct tensor *tensor, int64_t index, int64_t value)
{
    scalar_set_integer(tensor->spec->dtype, tensor->data, index, value);
}

int64_t tensor_scalars(const struct tensor_spec *spec)
{
    return spec->elements * dtype_scalars(spec->dtype);
}
