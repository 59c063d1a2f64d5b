#include "tasks/oracle_generate.h"

#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_round.h"

#include <assert.h>
#include <string.h>

uint64_t stream_inside(uint64_t key, uint64_t number)
{
    return fill_bits(number, key);
}

uint64_t trial_stream(const struct trial *trial, int rank, int tensor)
{
    uint64_t key = stream_inside(trial->seed, (uint64_t)trial->call);
    return stream_inside(key, (uint64_t)(uint32_t)rank << 32 | (uint32_t)tensor);
}

void fill_tensor_normal(const struct tensor *tensor, uint64_t key, double scale)
{
    int64_t count = tensor_scalars(tensor->spec);
    float factor = (float)scale;

    switch (tensor->spec->dtype) {
    case DTYPE_BF16:
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)tensor->data)[i] = fill_to_bf16(fill_normal((uint64_t)i, key) * factor);
        }
        break;
    case DTYPE_FP16:
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)tensor->data)[i] = fill_to_fp16(fill_normal((uint64_t)i, key) * factor);
        }
        break;
    case DTYPE_FP64:
        for (int64_t i = 0; i < count; i++) {
            ((double *)tensor->data)[i] = fill_normal((uint64_t)i, key) * scale;
        }
        break;
    default:
        for (int64_t i = 0; i < count; i++) {
            tensor_set(tensor, i, fill_normal((uint64_t)i, key) * factor);
        }
        break;
    }
}

void fill_tensor_integers(const struct tensor *tensor, uint64_t key, int64_t low, int64_t high)
{
    bool is_integer = dtype_is_integer(tensor->spec->dtype);

    for (int64_t i = 0; i < tensor_scalars(tensor->spec); i++) {
        int64_t value = fill_integer((uint64_t)i, key, low, high);
        if (is_integer) {
            tensor_set_integer(tensor, i, value);
        } else {
            tensor_set(tensor, i, (double)value);
        }
    }
}

void fill_tensor_bits(const struct tensor *tensor, uint64_t key)
{
    size_t size_bytes = dtype_size_bytes(tensor->spec->dtype);

    for (int64_t i = 0; i < tensor->spec->elements; i++) {
        uint64_t bits = fill_bits((uint64_t)i, key); /* little endian: the low bytes */
        memcpy((char *)tensor->data + (size_t)i * size_bytes, &bits, size_bytes);
    }
}

void fill_payload(bool bits, const struct tensor *tensor, uint64_t key)
{
    if (bits) {
        fill_tensor_bits(tensor, key);
    } else {
        fill_tensor_normal(tensor, key, 1);
    }
}

void fill_normal_inputs(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        for (int i = 0; i < run->plans[rank].input_count; i++) {
            fill_tensor_normal(&in[rank][i], trial_stream(trial, rank, i), 1);
        }
    }
}
